"""Passes over frozen graphs: what becomes possible once weights are constants."""
