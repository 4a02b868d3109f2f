"""The typed IR of Warp kernels: types, expressions, ops, functions, modules, and their text form."""
