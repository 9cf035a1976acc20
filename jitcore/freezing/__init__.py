"""Modules whose parameters are constants: ``freeze`` and what frozen models allow."""
