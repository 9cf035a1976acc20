"""Printers: from the loop-nest IR to source, one file for each language."""
