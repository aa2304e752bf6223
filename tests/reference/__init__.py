"""Slow implementations written from the definitions alone; they import nothing from `isojepa`."""
