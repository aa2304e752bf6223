"""Linear probes on an isotropic and an anisotropic embedding: what `probes.py` measures of Lemmas 1 and 2.

The embedding has covariance diag(λ), with the mean of λ equal to one in both cases. A rotation of the
embedding rotates the ridge and the least-squares estimate with it, so the axes are the eigenvectors without
loss of generality. Each function measures one seed and returns numbers by (quantity, law, setting). The
Tikhonov weight w is per sample: the estimate is (X'X / n + w I)⁻¹ X'y / n.
"""

import math

import torch
from torch import Tensor

from isojepa.seeds import generator

Key = tuple[str, str, str]  # quantity, law, setting
Numbers = dict[Key, float]

ISO, ANISO = "isotropic", "anisotropic"


def spectrum(dim: int, condition: float) -> dict[str, Tensor]:
    """Eigenvalues of both embeddings, falling, with mean one.

    Args:
        dim: number of eigenvalues.
        condition: largest over smallest eigenvalue of the anisotropic embedding; geometric in between.

    Example:
        >>> spectrum(2, 9.0)["anisotropic"]
        tensor([1.8000, 0.2000], dtype=torch.float64)
    """
    steps = torch.linspace(0, 1, dim, dtype=torch.float64)
    values = condition**-steps
    return {ISO: torch.ones(dim, dtype=torch.float64), ANISO: values / values.mean()}


def ridge_bias(seed: int, weights: list[float], dim: int, condition: float, noises: int) -> Numbers:
    """Bias of the ridge estimate over fresh label noise, on designs whose spectrum is exactly λ (Lemma 1)."""
    samples, noise, tasks = 20 * dim, 0.5, 200
    draw = generator(seed, "probes", "ridge")
    columns = torch.linalg.qr(torch.randn(samples, dim, generator=draw, dtype=torch.float64)).Q
    parameters = torch.randn(tasks, dim, generator=draw, dtype=torch.float64)
    parameters /= parameters.norm(dim=1, keepdim=True)
    errors = noise * torch.randn(noises, samples, generator=draw, dtype=torch.float64)
    numbers: Numbers = {}
    for w in weights:
        norms = {}
        for law, eigenvalues in spectrum(dim, condition).items():
            design = math.sqrt(samples) * columns * eigenvalues.sqrt()  # both have the same column span
            gram = design.T @ design / samples
            solve = torch.linalg.inv(gram + w * torch.eye(dim, dtype=torch.float64)) @ design.T / samples
            noise_part = (errors @ solve.T).mean(0)  # the mean estimate is linear in the labels
            tested = torch.cat([torch.eye(dim, dtype=torch.float64)[[-1, 0]], parameters])
            bias = tested @ design.T @ solve.T + noise_part - tested
            norms[law] = bias.norm(dim=1)
            rms_prediction = (bias[2:] @ design.T).pow(2).mean(1).mean().sqrt()
            numbers["worst task", law, f"{w:g}"] = norms[law][0].item()
            numbers["best task", law, f"{w:g}"] = norms[law][1].item()
            numbers["random tasks", law, f"{w:g}"] = norms[law][2:].pow(2).mean().sqrt().item()
            numbers["prediction", law, f"{w:g}"] = rms_prediction.item()
        harmed = (norms[ANISO][2:] > norms[ISO][2:]).double().mean()
        numbers["share of tasks harmed", ANISO, f"{w:g}"] = harmed.item()
    return numbers


def ridge_bias_truth(weights: list[float], dim: int, condition: float) -> Numbers:
    """The same in closed form: component j of the bias is -w θ_j / (λ_j + w)."""
    numbers: Numbers = {}
    for law, eigenvalues in spectrum(dim, condition).items():
        for w in weights:
            shrink = w / (eigenvalues + w)
            numbers["worst task", law, f"{w:g}"] = shrink[-1].item()
            numbers["best task", law, f"{w:g}"] = shrink[0].item()
            numbers["random tasks", law, f"{w:g}"] = shrink.pow(2).mean().sqrt().item()
            numbers["prediction", law, f"{w:g}"] = (eigenvalues * shrink**2).mean().sqrt().item()
    return numbers


def direction(
    seed: int, weights: list[float], dim: int, condition: float, samples: int, resamples: int
) -> Numbers:
    """Cosine between ridge estimate and truth, and accuracy, on Gaussian embeddings (Figure 18).

    The cosine is that of a regression with noise 0.5; the accuracy that of ridge on the labels sign(x'θ).
    """
    draw = generator(seed, "probes", "direction", samples)
    white = torch.randn(resamples, samples, dim, generator=draw, dtype=torch.float64)
    truth = torch.randn(dim, generator=draw, dtype=torch.float64)
    truth /= truth.norm()
    noise = 0.5 * torch.randn(resamples, samples, generator=draw, dtype=torch.float64)
    fresh = torch.randn(4000, dim, generator=draw, dtype=torch.float64)
    numbers: Numbers = {}
    for law, eigenvalues in spectrum(dim, condition).items():
        x, test = white * eigenvalues.sqrt(), fresh * eigenvalues.sqrt()
        signal = x @ truth
        gram = x.mT @ x / samples
        targets = torch.stack([signal + noise, signal.sign()], dim=-1)
        moments = x.mT @ targets / samples
        for w in weights:
            fitted = torch.linalg.solve(gram + w * torch.eye(dim, dtype=torch.float64), moments)
            cosine = fitted[..., 0] @ truth / fitted[..., 0].norm(dim=-1)
            right = (fitted[..., 1] @ test.T).sign() == (test @ truth).sign()
            perfect = _limit(eigenvalues, w, truth)
            for name, value in (("cosine", cosine.mean()), ("accuracy", right.double().mean())):
                setting = f"{w:g}, n {samples}"
                numbers[name, law, setting] = value.item()
                numbers[f"{name}, n infinite", law, setting] = perfect[name]
    return numbers


def _limit(eigenvalues: Tensor, w: float, truth: Tensor) -> dict[str, float]:
    """Cosine and accuracy with infinitely many Gaussian samples: the estimate is along λθ / (λ + w).

    Two half-spaces disagree on a Gaussian with probability (angle in the metric of λ) / π.
    """
    estimate = eigenvalues / (eigenvalues + w) * truth
    metric = estimate @ (eigenvalues * truth)
    metric /= ((estimate**2 @ eigenvalues) * (truth**2 @ eigenvalues)).sqrt()
    cosine = estimate @ truth / (estimate.norm() * truth.norm())
    return {
        "cosine": cosine.item(),
        "accuracy": 1 - math.acos(min(metric.item(), 1.0)) / math.pi,  # rounding may pass one
    }


def least_squares(seed: int, dim: int, condition: float, samples: int, resamples: int) -> Numbers:
    """Total variance of the OLS estimate and of its predictions over fresh training sets (Lemma 2)."""
    draw = generator(seed, "probes", "least squares")
    white = torch.randn(resamples, samples, dim, generator=draw, dtype=torch.float64)
    noise = torch.randn(resamples, samples, 1, generator=draw, dtype=torch.float64)
    numbers: Numbers = {}
    for law, eigenvalues in spectrum(dim, condition).items():
        # unbiased: the error is the fit of the noise, whatever the true parameter
        estimates = _ols(white * eigenvalues.sqrt(), noise)
        variance = estimates.var(0)
        numbers["parameters", law, f"n {samples}"] = variance.sum().item()
        numbers["predictions", law, f"n {samples}"] = (variance * eigenvalues).sum().item()
    return numbers


def least_squares_truth(dim: int, condition: float, samples: int) -> Numbers:
    """The same in closed form, from the mean of an inverse Wishart matrix: Σ 1/λ_j / (n - d - 1)."""
    numbers: Numbers = {}
    for law, eigenvalues in spectrum(dim, condition).items():
        numbers["parameters", law, f"n {samples}"] = (1 / eigenvalues).sum().item() / (samples - dim - 1)
        numbers["predictions", law, f"n {samples}"] = dim / (samples - dim - 1)
    return numbers


TASKS = ("linear regression", "binary classification", "smooth nonlinear target")


def estimates(seed: int, task: str, index: int, eigenvalues: Tensor, samples: int, resamples: int) -> Tensor:
    """OLS estimates of one two-dimensional task over fresh training sets (Figure 17); (resample, 2)."""
    draw = generator(seed, "probes", "estimates", task, index)
    truth = _heading(2 * math.pi * torch.rand((), generator=draw, dtype=torch.float64).item())
    waves = torch.randn(2, 8, generator=draw, dtype=torch.float64)
    phases = 2 * math.pi * torch.rand(8, generator=draw, dtype=torch.float64)
    x = torch.randn(resamples, samples, 2, generator=draw, dtype=torch.float64) * eigenvalues.sqrt()
    noise = 0.5 * torch.randn(resamples, samples, 1, generator=draw, dtype=torch.float64)
    signal = (x @ truth).unsqueeze(-1)
    if task == "linear regression":
        return _ols(x, signal + noise)
    if task == "binary classification":
        return _ols(x, signal.sign())
    return _ols(x, (x @ waves + phases).cos().sum(-1, keepdim=True) / 2)  # a field of variance one


def spread(seed: int, condition: float, samples: int, resamples: int, tasks: int) -> Numbers:
    """Total variance of those estimates, and spread of logistic decision boundaries (Figure 3).

    Means over the tasks; for the boundaries, the true parameter points in that many even directions.
    """
    by_setting: dict[Key, list[float]] = {}
    fresh = torch.randn(2000, 2, generator=generator(seed, "probes", "spread"), dtype=torch.float64)
    for law, eigenvalues in spectrum(2, condition).items():
        test = fresh * eigenvalues.sqrt()
        for index in range(tasks):
            for task in TASKS:
                variance = estimates(seed, task, index, eigenvalues, samples, resamples).var(0).sum()
                by_setting.setdefault(("variance", law, task), []).append(variance.item())
            truth = _heading(2 * math.pi * index / tasks)
            # "same labels": the parameter that gives the labels of the isotropic embedding
            for kind, parameter in (("same parameter", truth), ("same labels", truth / eigenvalues.sqrt())):
                lines = boundaries(seed, index, parameter, eigenvalues, samples, resamples)
                turned = torch.atan2(lines[:, 1], lines[:, 0]) - torch.atan2(parameter[1], parameter[0])
                turned = torch.remainder(turned + math.pi, 2 * math.pi) - math.pi
                wrong = (lines[:, :2] @ test.T + lines[:, 2:]).sign() != (test @ parameter).sign()
                by_setting.setdefault(("boundary angle", law, kind), []).append(turned.std().rad2deg().item())
                by_setting.setdefault(("wrong side", law, kind), []).append(wrong.double().mean().item())
    return {key: sum(values) / len(values) for key, values in by_setting.items()}


def boundaries(
    seed: int, index: int, parameter: Tensor, eigenvalues: Tensor, samples: int, resamples: int
) -> Tensor:
    """Logistic fits [slope, slope, intercept] over fresh training sets; P(y = 1) = sigmoid(4 x'θ)."""
    draw = generator(seed, "probes", "boundaries", index)
    x = torch.randn(resamples, samples, 2, generator=draw, dtype=torch.float64) * eigenvalues.sqrt()
    chance = torch.rand(resamples, samples, generator=draw, dtype=torch.float64)
    labels = (chance < torch.sigmoid(4 * x @ parameter)).double()
    return logistic(torch.cat([x, torch.ones_like(x[..., :1])], dim=-1), labels)


def logistic(x: Tensor, labels: Tensor, *, ridge: float = 1e-2, steps: int = 30) -> Tensor:
    """Minimise Σ log(1 + e^{-±x'θ}) + ridge ‖θ‖² / 2 by Newton's method, for a batch of training sets.

    Args:
        x: (batch, sample, dim); the last column may be ones.
        labels: (batch, sample), zero or one.
        ridge: keeps separable sets finite.
        steps: of Newton's method, each halved until no set gets worse by it.

    Returns:
        (batch, dim).
    """

    def loss(parameter: Tensor) -> Tensor:
        scores = (x @ parameter.unsqueeze(-1)).squeeze(-1)
        fit = torch.nn.functional.binary_cross_entropy_with_logits(scores, labels, reduction="none").sum(1)
        return fit + ridge / 2 * parameter.pow(2).sum(1)

    penalty = ridge * torch.eye(x.shape[-1], dtype=x.dtype)
    theta = x.new_zeros(x.shape[0], x.shape[-1])
    for _ in range(steps):
        chance = torch.sigmoid(x @ theta.unsqueeze(-1))
        gradient = x.mT @ (chance - labels.unsqueeze(-1)) + ridge * theta.unsqueeze(-1)
        step = torch.linalg.solve(x.mT @ (x * chance * (1 - chance)) + penalty, gradient).squeeze(-1)
        size = x.new_ones(x.shape[0], 1)
        while (worse := loss(theta - size * step) > loss(theta) + 1e-9).any():
            size[worse] /= 2
        theta = theta - size * step
        if step.abs().max() < 1e-9:
            break
    return theta


def _ols(x: Tensor, y: Tensor) -> Tensor:
    theta: Tensor = torch.linalg.solve(x.mT @ x, x.mT @ y).squeeze(-1)
    return theta


def _heading(angle: float) -> Tensor:
    return torch.tensor([math.cos(angle), math.sin(angle)], dtype=torch.float64)
