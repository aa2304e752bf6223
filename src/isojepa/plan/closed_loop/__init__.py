"""Closed loop: controllers that plan in a latent, in the simulator, under stated rules."""
