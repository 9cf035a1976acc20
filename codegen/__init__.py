"""From typed graphs to loop nests, and from those to machine code."""
