"""A world of your own: any callable is a mixing, any module an encoder, any function of views an objective.

Two latents are seen through eight sensors. The regularizer is swapped for plain whitening, which Theorem 3
shows to be enough when the latents are Gaussian.
"""

import torch

import isojepa as ij

sensors = torch.randn(2, 8, generator=ij.generator(0, "sensors"))
world = ij.data.World(
    ij.data.OrnsteinUhlenbeck(dim=2, rho=0.9),
    lambda z: torch.tanh(z @ sensors) + 0.1 * z @ sensors,
)
encoder = ij.encoders.MLP(in_dim=8, out_dim=2)
objective = ij.objectives.LeJEPA(weight=0.3, regularizer=ij.objectives.Whitening())
run = ij.fit(encoder, world, objective, steps=600, batch=512)
print(ij.certify(encoder, world))
