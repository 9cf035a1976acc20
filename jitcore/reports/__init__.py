"""What jitcore says of a function: ``explain``, assumptions in words, signatures with types."""
