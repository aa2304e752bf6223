"""What a latent is good for: model and goal to actions, and what planning in it costs."""
