"""The only user of Warp's internals: listens while Warp builds kernels. Runs in a child process."""
