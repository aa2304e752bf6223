"""Are these embeddings N(0, I)? One test, a sliced one, and the direction in which they are not."""

import torch

import isojepa as ij
from isojepa.objectives import gaussianity

# Gaussian in 8 dimensions, but for an X in the first two: each is N(0, 1), and the covariance is I
source = ij.generator(0, "example")
h = torch.randn(2000, 8, generator=source)
h[:, 1] = h[:, 0] * torch.randn(2000, generator=source).sign()

print("each coordinate:", gaussianity.AndersonDarling().pvalue(h).numpy().round(3))
print("its diagonal:   ", gaussianity.AndersonDarling().pvalue((h[:, 0] + h[:, 1]) / 2**0.5).item())
print("32 slices:      ", gaussianity.Sliced(slices=32).pvalue(h, draws=199).item())

worst = ij.certificates.examine(h, draws=39).worst[0]
print("worst direction:", worst.direction.round(2), "p", worst.p)
