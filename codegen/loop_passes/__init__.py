"""Passes over loop nests, between lowering and the printers."""
