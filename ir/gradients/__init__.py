"""Reverse-mode differentiation of typed graphs.

`differentiate` puts the backward part behind the forward part of a graph; what an op's gradient is
says a row of `rules.RULES`.
"""
