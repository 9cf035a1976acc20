"""Python's lists as values: arrays and a length, a heap where several names refer to them."""
