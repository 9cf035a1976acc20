"""Kernels written in LLVM code by hand: what loop nests do not give the speed of the machine."""
