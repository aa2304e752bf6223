"""isojepa_lab: the studies behind isojepa, their sweeps and the checks of its theory.

Its commands `study`, `sweep` and `theory` join `isojepa` through the entry point group `isojepa.commands`.
"""
