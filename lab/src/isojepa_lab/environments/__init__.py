"""Environments of the studies: dm_control's Reacher, rendered scenes, public data sets, latent control.

`reacher`, `scenes` and `datasets` register components through the entry point group `isojepa.components`.
"""
