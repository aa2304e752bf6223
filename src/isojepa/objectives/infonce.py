"""Contrastive objectives: InfoNCE with isotropic, anisotropic and sliced Gaussian kernels, and SimCLR.

For two views h, h' of n states and a kernel of precision 1/sigma^2,

    alignment    a = mean_i |h_i - h'_i|^2 / (2 sigma^2)
    regularizer  r = mean_i log (1/n) sum_j exp(-|h_i - h'_j|^2 / (2 sigma^2)), in both directions

a + r is InfoNCE (van den Oord et al. 2018) minus log n; the objective is weight * r + (1 - weight) * a, so
weight 0.5 is half of it. Distances are |h|^2 + |h'|^2 - 2 h.h': memory is batch^2, never batch^2 x dim.

Width. For an Ornstein-Uhlenbeck pair of unit variance the log density ratio has the cross term
rho z.z' / (1 - rho^2), so the kernel matches it if sigma^2 = (1 - rho^2) / rho, in any dimension.

Saturation. InfoNCE is bounded by log n, while the mutual information of the pair is -(dim/2) log(1 - rho^2);
beyond the bound the loss is flat. `SlicedInfoNCE` scores random k-dimensional subspaces, whose mutual
information stays below log n.

SimCLR: the normalized temperature-scaled cross entropy, NT-Xent (Chen et al. 2020, ICML, equation 1). For
unit vectors u_i, u'_i of two views of n states and a temperature T, each embedding x is compared with the
other 2n - 1,

    alignment    mean_i (1 - u_i . u'_i) / T
    regularizer  mean over both views of log (1/(2n - 1)) sum_{y != x} exp(-(1 - x . y) / T)

alignment + regularizer is NT-Xent minus log(2n - 1); weight 0.5 is half of it. 1 - x . y is half the squared
distance: this is `InfoNCE` on the sphere with width sqrt(T) and the embeddings of the same view as further
negatives.

More than two views are compared in pairs, and the terms are averaged over pairs; if only some views are
global, over the pairs with a global view.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from isojepa import ranks
from isojepa.objectives.alignment import pairs
from isojepa.objectives.objective import Loss, at_least_float32, check_views, check_weight, combine
from isojepa.registry import Context, Spec, register
from isojepa.seeds import Stream
from isojepa.validation import check_count, validate_types

_MAX_SIMILARITIES = 1 << 23  # of all slices in memory at once
_DEPTH = 60.0  # e^-60 of the largest term is negligible even in float64
_MAX_OFFSET = 40.0  # of the largest similarity from its bound 0; float32 still represents e^-80


@validate_types
def matched_sigma(rho: float) -> float:
    """Kernel width that fits a pair of unit variance and correlation rho: sqrt((1 - rho^2) / rho)."""
    if not 0 < rho < 1:
        raise ValueError(f"rho must lie in (0, 1), got {rho}")
    return math.sqrt((1 - rho**2) / rho)


class InfoNCE(nn.Module):
    """InfoNCE with an isotropic Gaussian kernel.

    Args:
        sigma: kernel width; the initial value if it is learned. See `matched_sigma`.
        learned: train the width with the encoder.
        weight: lambda, in [0, 1]; 0.5 is the usual InfoNCE, halved.

    Example:
        >>> loss = InfoNCE(sigma=matched_sigma(0.95))(torch.randn(2, 64, 8))
        >>> sorted(loss.terms)
        ['alignment', 'regularizer', 'sigma']
    """

    @validate_types
    def __init__(self, sigma: float = 1.0, learned: bool = False, weight: float = 0.5) -> None:
        super().__init__()
        if not 0 < sigma < math.inf:
            raise ValueError(f"sigma must be positive and finite, got {sigma}")
        self.weight = check_weight(weight)
        self.learned = learned
        log_sigma = torch.tensor(math.log(sigma))
        if learned:
            self.log_sigma = nn.Parameter(log_sigma)
        else:
            self.register_buffer("log_sigma", log_sigma, persistent=False)

    def forward(self, views: Tensor, generator: torch.Generator | None = None) -> Loss:
        """Return the loss of views (view, batch, dim); no randomness."""
        sigma = self.log_sigma.exp()
        alignment, regularizer = contrast(ranks.gather(check_views(views, generator)) / sigma)
        return combine(self.weight, alignment, regularizer, sigma=sigma)

    def extra_repr(self) -> str:
        return f"sigma={self.log_sigma.exp().item():.6g}, learned={self.learned}, weight={self.weight}"


class AnInfoNCE(nn.Module):
    """InfoNCE with one learned precision per dimension (Rusak et al. 2024, "InfoNCE: Identifying the Gap").

    For latents of different decay rates the density ratio is anisotropic, and the kernel must be too.

    Args:
        dim: embedding dimension.
        sigma: initial width of every dimension.
        weight: lambda, in [0, 1].
    """

    @validate_types
    def __init__(self, dim: int, sigma: float = 1.0, weight: float = 0.5) -> None:
        super().__init__()
        if not 0 < sigma < math.inf:
            raise ValueError(f"sigma must be positive and finite, got {sigma}")
        if int(dim) != dim or dim < 1:
            raise ValueError(f"dim must be a positive integer, got {dim}")
        self.weight = check_weight(weight)
        self.log_sigma = nn.Parameter(torch.full((dim,), math.log(sigma)))

    @property
    def precision(self) -> Tensor:
        """(dim,) the learned precisions 1 / sigma^2."""
        return torch.exp(-2 * self.log_sigma.detach())

    def forward(self, views: Tensor, generator: torch.Generator | None = None) -> Loss:
        """Return the loss of views (view, batch, dim); no randomness."""
        check_views(views, generator)
        if views.shape[-1] != len(self.log_sigma):
            raise ValueError(f"views must have dim {len(self.log_sigma)}, got shape {tuple(views.shape)}")
        alignment, regularizer = contrast(ranks.gather(views) / self.log_sigma.exp())
        return combine(self.weight, alignment, regularizer)

    def extra_repr(self) -> str:
        return f"dim={len(self.log_sigma)}, weight={self.weight}"


class SlicedInfoNCE(nn.Module):
    """InfoNCE averaged over random orthonormal k-dimensional subspaces, drawn anew at each call.

    Args:
        k: dimension of a subspace, at most that of the embedding.
        slices: number of subspaces per call; mutually orthogonal while they fit.
        sigma: kernel width within a subspace. See `matched_sigma`.
        weight: lambda, in [0, 1].
        seed: draws the subspaces of calls without a generator.
    """

    @validate_types
    def __init__(
        self, k: int = 4, slices: int = 16, sigma: float = 1.0, weight: float = 0.5, seed: int = 0
    ) -> None:
        super().__init__()
        k, slices = check_count("k", k), check_count("slices", slices)
        if not 0 < sigma < math.inf:
            raise ValueError(f"sigma must be positive and finite, got {sigma}")
        self.k, self.slices, self.sigma = k, slices, sigma
        self._stream = Stream(seed, "frames")
        self.weight = check_weight(weight)

    def forward(self, views: Tensor, generator: torch.Generator | None = None) -> Loss:
        """Return the loss of views (view, batch, dim); the generator draws the subspaces."""
        views = ranks.gather(check_views(views, generator))
        dim = views.shape[-1]
        frames = draw_frames(dim, min(self.k, dim), self.slices, generator or self._stream.next()).to(views)
        projected = _project(views, frames) / self.sigma
        if self.slices * views.shape[1] ** 2 <= _MAX_SIMILARITIES:
            alignment, regularizer = contrast(projected)
        else:  # slice by slice, recomputed in the backward pass: memory of one batch^2
            terms = [
                checkpoint(contrast, part, use_reentrant=False, preserve_rng_state=False)
                for part in projected.unbind(1)
            ]
            alignment, regularizer = (torch.stack(term).mean() for term in zip(*terms, strict=True))
        return combine(self.weight, alignment, regularizer)

    def extra_repr(self) -> str:
        return f"k={self.k}, slices={self.slices}, sigma={self.sigma}, weight={self.weight}"


def contrast(views: Tensor) -> tuple[Tensor, Tensor]:
    """Alignment and regularizer for kernel width 1, averaged over pairs of views and leading axes.

    Args:
        views: (view, ..., batch, dim).
    """
    count, n = views.shape[0], views.shape[-2]
    # distances are invariant to a common shift, and products of centered views keep their digits
    views = views - views.detach().mean((0, -2), keepdim=True)
    half_norms = views.square().sum(-1) / 2
    alignments, regularizers = [], []
    for v in range(count):
        for w in range(v + 1, count):
            similarity = views[v] @ views[w].mT - half_norms[v].unsqueeze(-1) - half_norms[w].unsqueeze(-2)
            alignments.append((views[v] - views[w]).square().sum(-1).mean() / 2)
            forth, back = _log_sums(similarity)
            regularizers.append((forth.mean() + back.mean()) / 2 - math.log(n))
    return torch.stack(alignments).mean(), torch.stack(regularizers).mean()


def _log_sums(similarity: Tensor) -> tuple[Tensor, Tensor]:
    """log sum exp of the rows and of the columns of similarities (..., n, n), (..., n) each.

    All similarities are at most 0. If the maximum of every row and column is near 0, one exponential serves
    both sums. Terms far below the maximum of their sum are clamped from below: they contribute neither value
    nor gradient, but underflow in the exponential is several times as slow.
    """
    values = similarity.detach()
    rows, columns = values.amax(-1, keepdim=True), values.amax(-2, keepdim=True)
    if rows.amin() > -_MAX_OFFSET and columns.amin() > -_MAX_OFFSET:
        powers = similarity.clamp_min(-2 * _MAX_OFFSET).exp()
        return powers.sum(-1).log(), powers.sum(-2).log()
    if values.amin() < -_DEPTH:
        similarity = torch.maximum(similarity, torch.minimum(rows, columns) - _DEPTH)
    return torch.logsumexp(similarity, -1), torch.logsumexp(similarity, -2)


def _project(views: Tensor, frames: Tensor) -> Tensor:
    """Views (view, batch, dim) on frames (slice, dim, k), in one product: (view, slice, batch, k)."""
    projected: Tensor = (
        (views @ torch.cat(frames.unbind(), dim=1)).unflatten(-1, (-1, frames.shape[-1])).transpose(1, 2)
    )
    return projected


def draw_frames(dim: int, k: int, slices: int, generator: torch.Generator) -> Tensor:
    """Draw orthonormal frames (slices, dim, k); frames of one rotation are mutually orthogonal."""
    per_rotation = dim // k
    frames: list[Tensor] = []
    while len(frames) < slices:
        width = k * min(per_rotation, slices - len(frames))
        basis, _ = torch.linalg.qr(torch.randn(dim, width, generator=generator, device=generator.device))
        frames.extend(basis.split(k, dim=1))
    return torch.stack(frames)


class KernelSpec(Spec):
    """Base of the specs of kernels: the width, as a number or by rule."""

    costless: ClassVar = ("weight", "sigma")
    sigma: float | str

    def width(self, context: Context) -> float:
        """The width, or the initial value of a learned one.

        Raises:
            ValueError: the rule is unknown, or needs one correlation for all latents.
        """
        if not isinstance(self.sigma, str):
            return self.sigma
        if self.sigma not in ("matched", "learned"):
            raise ValueError(f"sigma must be a number, 'matched' or 'learned', got {self.sigma!r}")
        rho = context.correlation
        if rho is None:
            raise ValueError(f"sigma {self.sigma!r} needs a world that knows its correlation: give a number")
        if isinstance(rho, tuple):
            if self.sigma == "matched":
                raise ValueError(f"sigma 'matched' needs one correlation for all latents, got {rho}")
            rho = sum(rho) / len(rho)  # only the initial value of a learned width
        return matched_sigma(rho)

    def operations(self, batch: float, dim: int) -> float:
        return batch**2 * (6 * dim + 50)


@register("objective", "infonce")
@dataclass(frozen=True)
class InfoNCESpec(KernelSpec):
    """InfoNCE with an isotropic Gaussian kernel."""

    weight: float = 0.5
    """Weight λ of the regularizer, in [0, 1]."""
    sigma: float | str = 1.0
    """Kernel width: a number, `matched` to the world, or `learned`."""

    def build(self, context: Context) -> InfoNCE:
        return InfoNCE(self.width(context), self.sigma == "learned", self.weight)


@register("objective", "aninfonce")
@dataclass(frozen=True)
class AnInfoNCESpec(KernelSpec):
    """InfoNCE with one learned precision per dimension."""

    weight: float = 0.5
    """Weight λ of the regularizer, in [0, 1]."""
    sigma: float | str = 1.0
    """Initial widths: a number, or `matched` to the world."""

    def build(self, context: Context) -> AnInfoNCE:
        if context.embedding is None:
            raise ValueError("aninfonce needs to know the embedding dimension: set the encoder's dim")
        return AnInfoNCE(context.embedding, self.width(context), self.weight)


@register("objective", "sliced-infonce")
@dataclass(frozen=True)
class SlicedInfoNCESpec(KernelSpec):
    """InfoNCE averaged over random subspaces, drawn anew at each step."""

    weight: float = 0.5
    """Weight λ of the regularizer, in [0, 1]."""
    sigma: float | str = 1.0
    """Kernel width within a subspace: a number, or `matched` to the world."""
    k: int = 4
    """Dimension of a subspace."""
    slices: int = 16
    """Number of subspaces."""

    def build(self, context: Context) -> SlicedInfoNCE:
        return SlicedInfoNCE(self.k, self.slices, self.width(context), self.weight)

    def operations(self, batch: float, dim: int) -> float:
        return batch**2 * 400 * self.slices


class SimCLR(nn.Module):
    """weight * regularizer + (1 - weight) * alignment, of embeddings on the unit sphere.

    Args:
        temperature: T, positive.
        weight: lambda, in [0, 1]; 0.5 is NT-Xent, halved.

    Example:
        >>> loss = SimCLR()(torch.randn(4, 32, 8), global_views=2)
        >>> sorted(loss.terms)
        ['alignment', 'regularizer']
    """

    @validate_types
    def __init__(self, temperature: float = 0.1, weight: float = 0.5) -> None:
        super().__init__()
        if not 0 < temperature < math.inf:
            raise ValueError(f"temperature must be positive and finite, got {temperature}")
        self.temperature, self.weight = temperature, check_weight(weight)

    def forward(
        self, views: Tensor, generator: torch.Generator | None = None, *, global_views: int | None = None
    ) -> Loss:
        """Return the loss of views (view, batch, dim); no randomness."""
        whole = ranks.gather(at_least_float32(check_views(views, generator)))
        u = functional.normalize(whole, dim=-1)
        n = u.shape[1]
        within: dict[int, Tensor] = {}  # by view: log sum over the other embeddings of the view
        alignments, regularizers = [], []
        for v, w in pairs(len(u), global_views):
            energy = self._energy(u[v], u[w])
            alignments.append(-energy.diagonal().mean())
            for view, axis in ((v, 1), (w, 0)):
                if view not in within:
                    energies = self._energy(u[view], u[view]).fill_diagonal_(-math.inf)
                    within[view] = torch.logsumexp(energies, 1)
                regularizers.append(torch.logaddexp(torch.logsumexp(energy, axis), within[view]).mean())
        regularizer = torch.stack(regularizers).mean() - math.log(2 * n - 1)
        return combine(self.weight, torch.stack(alignments).mean(), regularizer)

    def _energy(self, u: Tensor, other: Tensor) -> Tensor:
        """(cosine - 1) / temperature: (n, n)."""
        return (u @ other.T - 1) / self.temperature

    def extra_repr(self) -> str:
        return f"temperature={self.temperature}, weight={self.weight}"


@register("objective", "simclr")
@dataclass(frozen=True)
class SimCLRSpec(Spec):
    """SimCLR: contrast on the unit sphere, NT-Xent."""

    costless: ClassVar = ("weight", "temperature")
    weight: float = 0.5
    """Weight λ of the regularizer, in [0, 1]; 0.5 is NT-Xent, halved."""
    temperature: float = 0.1
    """Temperature of the similarities."""

    def build(self, context: Context) -> SimCLR:
        return SimCLR(self.temperature, self.weight)

    def operations(self, batch: float, dim: int) -> float:
        return 3 * batch**2 * (6 * dim + 50)
