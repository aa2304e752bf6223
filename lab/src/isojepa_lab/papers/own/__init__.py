"""Claims of this package's own."""
