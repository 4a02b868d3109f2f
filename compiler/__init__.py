"""From Warp kernels to IR, CUDA C++, PTX and cubins."""
