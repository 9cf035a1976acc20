"""Code for CUDA devices: host functions that launch kernels, from the same loop nests."""
