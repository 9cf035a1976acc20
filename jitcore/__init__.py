"""jitcore."""
