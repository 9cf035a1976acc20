"""oneDNN as a backend for layers: groups of them are programs that it plans and runs."""
