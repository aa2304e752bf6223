"""Studies: one file per claim, with its configs and its table, made from records."""
