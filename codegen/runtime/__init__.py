"""What native code calls: memory, threads, lists, BLAS, NumPy's own loops, oneDNN."""
