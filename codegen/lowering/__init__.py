"""Lowering of typed graphs to loop nests, by family of operations."""
