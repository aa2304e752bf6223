"""Certify embeddings you already have, with no labels: both views of each pair and their correlation.

Here they come from a rotation of a Gaussian process; yours come from your encoder. The bound is the largest
possible distance from a rotation of the true latents. rho must come from outside: here from the design of the
pairs (docs/certificate.md).
"""

import torch

import isojepa as ij

latents, latents_next = ij.data.OrnsteinUhlenbeck(dim=4, rho=0.9).sample(200_000, ij.generator(0, "data"))
turn, _ = torch.linalg.qr(torch.randn(4, 4, generator=ij.generator(0, "turn")))
h, h_next = latents @ turn, latents_next @ turn

certificate = ij.certify(h, next=h_next, rho=0.9, rho_from="design")
print(certificate)
