"""IR to CUDA C++: Warp's own statements, each marked with the line it comes from."""
