"""LeJEPA in one file of plain PyTorch: data, SIGReg, the training loop and Theorem 3's bound.

The latents z of a world are two independent Gaussian coordinates that drift slowly. The encoder never sees
them. It sees x = g(z), where g winds the plane into a spiral, in pairs (x, x') that are close in time.

LeJEPA (Balestriero & LeCun 2025, arXiv:2511.08544) trains an encoder f on such pairs. With h = f(x),

    loss = lambda * SIGReg(h, h') + (1 - lambda) * alignment(h, h').

Alignment pulls the two embeddings of a pair together; SIGReg keeps the distribution of embeddings N(0, I).
Neither suffices alone: a constant encoder is perfectly aligned, and f(x) = x is perfectly Gaussian, because
the spiral only rotates circles around the origin. Both together do: in a Gaussian world the optimum is
h = Q z with Q orthogonal (Klindt, LeCun & Balestriero 2026, arXiv:2605.26379v1, Theorem 1). A trained encoder
is near the optimum; Theorem 3 bounds its distance from a rotation of z without using z.

    python examples/lejepa_one_file.py              # the spiral, about half a minute
    python examples/lejepa_one_file.py --steps 500  # a few seconds, lower R^2

Sections: 1 world, 2 SIGReg, 3 loss, 4 encoder, 5 training, 6 evaluation. isojepa computes the same, faster,
and for other worlds and models; tests/test_one_file.py compares each function with it.
"""

import argparse
import hashlib
import itertools
import json
import math
import time
from typing import NamedTuple

import torch
from torch import Generator, Tensor, nn

RHO = 0.95  # correlation of each latent across a pair


def make_generator(seed: int, *stream: str | int) -> Generator:
    """Return the random generator of one purpose, e.g. ("data", 17) for the batch of step 17.

    Its seed is a hash of seed and purpose, so that no stream depends on how much another one has drawn.
    """
    name = json.dumps([seed, *map(str, stream)])
    digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
    return Generator().manual_seed(int.from_bytes(digest, "little") >> 1)  # 63 bits


# 1. World: an Ornstein-Uhlenbeck process observed through a spiral


def sample_latents(n: int, generator: Generator, dim: int = 2, rho: float = RHO) -> tuple[Tensor, Tensor]:
    """Draw n pairs (z, z') of the stationary Ornstein-Uhlenbeck process, each (n, dim).

    z ~ N(0, I),  z' = rho z + sqrt(1 - rho^2) eta,  eta ~ N(0, I)

    Then z' ~ N(0, I) too, and each coordinate of z' has correlation rho with that of z.
    """
    z = torch.randn(n, dim, generator=generator)
    noise = torch.randn(n, dim, generator=generator)
    return z, rho * z + math.sqrt(1 - rho**2) * noise


def spiral(z: Tensor) -> Tensor:
    """Mix latents (n, 2) into observations (n, 2): rotate each point by an angle proportional to its radius.

    g(z) = R(pi |z|) z

    |g(z)| = |z|, and the Jacobian has determinant 1. So x is exactly N(0, I), as z is: the distribution of
    single observations shows nothing of the spiral, only pairs do.
    """
    angle = math.pi * z.norm(dim=-1)
    cos, sin = angle.cos(), angle.sin()
    z1, z2 = z.unbind(-1)
    return torch.stack((cos * z1 - sin * z2, sin * z1 + cos * z2), -1)


# 2. SIGReg: how far is the distribution of embeddings from N(0, I)?


def sigreg(h: Tensor, generator: Generator, knots: int = 17, t_max: float = 5.0) -> Tensor:
    """Sketched isotropic Gaussian regularization of embeddings (view, batch, dim): a scalar.

    A distribution is N(0, I) if and only if its projection on every unit vector is N(0, 1). SIGReg draws
    random directions u at each step. It compares the projections p_i = <u, h_i> of each view with N(0, 1) by
    the Epps-Pulley statistic, a distance between characteristic functions, of the sample and of N(0, 1):

        phi_n(t) = 1/n sum_i exp(i t p_i),    phi(t) = exp(-t^2 / 2),
        T = n * integral of |phi_n(t) - phi(t)|^2 exp(-t^2 / 2) dt.

    The value is the mean of T over directions and views (LeJEPA, Definition 2 and Algorithm 1). For n samples
    of N(0, 1) itself, T is 1.06 on average, whatever n: this is sampling noise.

    Args:
        h: embeddings.
        generator: draws the directions.
        knots: odd number of points of the trapezoidal rule on [-t_max, t_max].
        t_max: end of the integral; exp(-t^2 / 2) is below 4e-6 beyond 5.
    """
    n, dim = h.shape[-2:]
    slices = min(1024, max(16, 8 * dim))
    directions = torch.randn(slices, dim, generator=generator)
    directions = directions / directions.norm(dim=1, keepdim=True)  # (slice, dim), uniform on the sphere
    projections = h @ directions.T.to(h)  # (view, batch, slice)

    t = torch.linspace(0, t_max, knots // 2 + 1).to(h)  # (knot,); t >= 0 is one half of an even integrand
    phi = torch.exp(-(t**2) / 2)
    angles = projections.unsqueeze(-1) * t  # (view, batch, slice, knot)
    real, imaginary = angles.cos().mean(1), angles.sin().mean(1)  # of phi_n: (view, slice, knot)
    distance = (real - phi) ** 2 + imaginary**2  # |phi_n - phi|^2
    statistic = 2 * n * torch.trapezoid(distance * phi, t)  # (view, slice); the weight of t equals phi(t)
    return statistic.mean()


# 3. Loss


class Loss(NamedTuple):
    """The total to minimize and its two terms, all scalars."""

    total: Tensor
    alignment: Tensor
    regularizer: Tensor


def lejepa(h: Tensor, generator: Generator, weight: float = 2e-3) -> Loss:
    """LeJEPA's loss of embeddings (view, batch, dim): weight * SIGReg + (1 - weight) * alignment.

    Alignment is the mean squared difference between a view and the mean of all views (LeJEPA, Algorithm 2).
    There is no teacher, stop-gradient or predictor: SIGReg alone prevents collapse. SIGReg is n times a
    distance, so weight * n is what balances the two terms: 0.5 at the first step below, 4 at the last.
    """
    regularizer = sigreg(h, generator)
    center = h.mean(0)  # (batch, dim)
    alignment = (h - center).square().mean()
    return Loss(weight * regularizer + (1 - weight) * alignment, alignment, regularizer)


# 4. Encoder


def make_mlp(in_dim: int, out_dim: int, width: int = 64, layers: int = 6, seed: int = 0) -> nn.Sequential:
    """A multilayer perceptron, (..., in_dim) to (..., out_dim): `layers` linear maps with GELU between them.

    Weights and biases start uniform on +-1/sqrt(fan_in), torch's own initialization, drawn from the seed.
    """
    generator = make_generator(seed, "init")
    modules: list[nn.Module] = []
    for fan_in, fan_out in itertools.pairwise([in_dim, *[width] * (layers - 1), out_dim]):
        linear = nn.Linear(fan_in, fan_out)
        for parameter in (linear.weight, linear.bias):
            nn.init.uniform_(parameter, -1 / math.sqrt(fan_in), 1 / math.sqrt(fan_in), generator=generator)
        modules += [linear, nn.GELU()]
    return nn.Sequential(*modules[:-1])  # no activation after the last map: embeddings are unbounded


# 5. Training


def learning_rate_at(step: int, steps: int, peak: float = 2e-2, warmup: float = 0.025) -> float:
    """Linear warmup over the first 2.5 % of the steps, then half a cosine down to 0."""
    warmup_steps = warmup * steps
    if step < warmup_steps:
        return peak * (step + 1) / (math.floor(warmup_steps) + 1)
    return peak * 0.5 * (1 + math.cos(math.pi * (step - warmup_steps) / (steps - warmup_steps)))


def batch_size_at(step: int, steps: int, first: int = 256, last: int = 2048) -> int:
    """Geometric growth from the first step to the last.

    Small batches find the shape quickly, while alignment leads; large ones then remove noise and shrinkage,
    while Gaussianity leads, whose weight grows with the batch (see `lejepa`).
    """
    return round(first * (last / first) ** (step / max(1, steps - 1)))


def train(encoder: nn.Module, steps: int = 2000, seed: int = 0, log_every: int = 200) -> None:
    """Train the encoder in place on fresh pairs of the spiral world; print losses and held-out R^2."""
    start = time.monotonic()
    z_eval, _ = sample_latents(10_000, make_generator(seed, "eval"))
    # beta2 0.95 in place of AdamW's 0.999 reaches a slightly higher R^2 in as many steps
    optimizer = torch.optim.AdamW(encoder.parameters(), betas=(0.9, 0.95), weight_decay=0.0)
    for step in range(steps):
        z, z_next = sample_latents(batch_size_at(step, steps), make_generator(seed, "data", step))
        x = torch.stack((spiral(z), spiral(z_next)))  # (view, batch, 2), all that the encoder sees
        loss = lejepa(encoder(x), make_generator(seed, "slices", step))

        for group in optimizer.param_groups:
            group["lr"] = learning_rate_at(step, steps)
        optimizer.zero_grad()
        loss.total.backward()
        optimizer.step()

        if (step + 1) % log_every == 0 or step + 1 == steps:
            with torch.no_grad():
                r2 = held_out_r2(encoder(spiral(z_eval)), z_eval)
            terms = f"alignment {loss.alignment:.4f}  regularizer {loss.regularizer:6.3f}  R2 {r2:.4f}"
            print(f"step {step + 1:5d}  {terms}  {time.monotonic() - start:5.1f} s", flush=True)


# 6. Evaluation: is the embedding a rotation of the latents?
#
# In float64, on pairs that training has not seen. All values are point estimates, the bound included;
# isojepa.certify adds their confidence intervals.


def held_out_r2(h: Tensor, z: Tensor) -> float:
    """R^2 of latents z (n, latent) predicted linearly from embeddings h (n, dim), mean over latents.

    The least-squares map is fitted on the first half of the samples and scored on the second.
    """
    h, z = h.double(), z.double()
    half = len(h) // 2
    mean_h, mean_z = h[:half].mean(0), z[:half].mean(0)
    matrix = torch.linalg.lstsq(h[:half] - mean_h, z[:half] - mean_z).solution  # (dim, latent)
    predicted = (h[half:] - mean_h) @ matrix + mean_z
    residual = (z[half:] - predicted).square().sum(0)
    total = (z[half:] - z[half:].mean(0)).square().sum(0)
    return (1 - residual / total).mean().item()


def procrustes_error(h: Tensor, z: Tensor) -> float:
    """E |h - Q z|^2 for the best orthogonal Q and centered h, z (n, dim): the left side of Theorem 3.

    With the singular value decomposition z^T h = U S V^T of samples in rows, the best map of rows is U V^T
    (orthogonal Procrustes). It is fitted on the first half of the samples and scored on the second.
    """
    h, z = h.double(), z.double()
    half = len(h) // 2
    h, z = h - h[:half].mean(0), z - z[:half].mean(0)
    u, _, vt = torch.linalg.svd(z[:half].T @ h[:half])
    return (h[half:] - z[half:] @ (u @ vt)).square().sum(1).mean().item()


class Bound(NamedTuple):
    """Theorem 3's bound and its terms."""

    epsilon: float
    delta: float
    d: float
    bound: float


def measure_bound(h: Tensor, h_next: Tensor, rho: float = RHO, blocks: int = 20) -> Bound:
    """Theorem 3 of Klindt, LeCun & Balestriero (2026) from the embeddings of n pairs, (n, dim) each.

        epsilon = |Cov(h) - I|_F                           distance from white
        delta   = E |h' - h|^2 - 2 (1 - rho) tr Cov(h)     alignment gap
        D       = delta / (2 rho (1 - rho))
        min over orthogonal Q of E |h - Q z|^2  <=  D + (epsilon + D)^2

    Why: a linear function of z has correlation rho across a pair, so delta = 0 if h is linear. Nonlinear
    components of h, of Hermite degree 2 and above, have correlation rho^2 at most. Each unit of their
    variance adds at least 2 (rho - rho^2) to delta, so their variance is at most D. The linear component M z
    then has |M M^T - I|_F <= epsilon + D, which bounds the distance of M from an orthogonal matrix.

    The distance of a sample covariance from I overestimates epsilon: noise adds to it. With the covariances
    S_a of disjoint blocks of pairs, the mean of <S_a - I, S_b - I> over blocks that are no neighbors
    estimates epsilon^2 without bias. It may fall below 0 by chance, as delta may; both are clipped at 0.
    Centering by the mean takes its own variance away, which block means estimate and which is returned.
    """
    h, h_next = h.double(), h_next.double()
    views = [(view - view.mean(0)).tensor_split(blocks) for view in (h, h_next)]
    sums = torch.stack([part.sum(0) for view in views for part in view])
    of_mean = sums.T @ sums * blocks / (blocks - 1) / (2 * len(h) ** 2)  # (dim, dim) covariance of the mean
    products = torch.stack([a.T @ a + b.T @ b for a, b in zip(*views, strict=True)])
    covariance = products.sum(0) / (2 * len(h)) + of_mean

    distance = (h_next - h).square().sum(1).mean()
    delta = (distance - 2 * (1 - rho) * covariance.trace()).item()
    d = max(delta, 0.0) / (2 * rho * (1 - rho))

    sizes = torch.tensor([len(part) for part in views[0]])[:, None, None]
    errors = (products / (2 * sizes) + of_mean - torch.eye(h.shape[1])).flatten(1)  # S_a - I
    order = torch.arange(blocks)
    apart = (order[:, None] - order).abs() >= 2
    epsilon = math.sqrt(max((errors @ errors.T)[apart].mean().item(), 0.0))
    return Bound(epsilon, delta, d, d + (epsilon + d) ** 2)


def main() -> None:
    """Train on the spiral; print R^2, error and bound on fresh pairs."""
    parser = argparse.ArgumentParser(description="Train LeJEPA on the spiral world.")
    parser.add_argument("--steps", type=int, default=2000, help="optimizer steps")
    parser.add_argument("--seed", type=int, default=0, help="seed of weights, data and directions")
    args = parser.parse_args()

    encoder = make_mlp(in_dim=2, out_dim=2, seed=args.seed)
    train(encoder, args.steps, args.seed)

    z, z_next = sample_latents(100_000, make_generator(args.seed + 1, "certify"))
    with torch.no_grad():
        h, h_next = encoder(spiral(z)), encoder(spiral(z_next))
    bound = measure_bound(h, h_next)
    print(f"\nheld-out R2  {held_out_r2(h, z):.4f}  linear map from embeddings to latents")
    print(f"error        {procrustes_error(h, z):.4f}  E |h - Q z|^2, best orthogonal Q; needs the latents")
    print(f"bound        {bound.bound:.4f}  Theorem 3 on that error, from embeddings and rho alone")
    print(f"             epsilon {bound.epsilon:.4f}, delta {bound.delta:.4f}, D {bound.d:.4f}")


if __name__ == "__main__":
    main()
