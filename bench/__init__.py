"""The benchmark: jitcore beside the other ways to run the same NumPy program."""
