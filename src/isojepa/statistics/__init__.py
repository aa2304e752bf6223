"""Inference for dependent rows: effective rows, repeated states, intervals, and nulls by re-pairing."""
