"""Which nodes of a graph go into one kernel."""
