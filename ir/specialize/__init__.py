"""The abstract interpreter that makes typed graphs of generic ones, for types of arguments."""
