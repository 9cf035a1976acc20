"""Entries: how a call from Python gets to native code and back."""
