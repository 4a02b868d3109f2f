"""Cubins and PTX as data. The only user of pyelftools; needs neither CUDA nor Warp."""
