"""The IR: types, graphs, the op table, text forms, the interpreter, and passes."""
