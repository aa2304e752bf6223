"""Looking: the computations behind the page of a model, and the page."""
