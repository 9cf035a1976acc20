"""Tracing: a graph from an example run."""
