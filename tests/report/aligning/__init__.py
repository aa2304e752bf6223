"""The pages of how encoders relate."""
