"""How encoders relate: maps between them, numbers that compare them, and what a map is good for."""
