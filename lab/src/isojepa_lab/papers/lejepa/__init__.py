"""Claims of Balestriero & LeCun (2025), LeJEPA."""
