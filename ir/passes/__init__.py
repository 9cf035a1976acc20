"""Rewrites of graphs, one file each."""
