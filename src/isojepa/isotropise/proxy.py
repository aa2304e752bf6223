"""Stand-ins for latents that nobody has: a few coordinates computed from the observations.

Weights that make pairs more isotropic need coordinates to be isotropic in. Where the latents are not known,
principal components of the observations, or the embedding of an encoder trained on the data as they are, may
serve in their place; isotropy is then isotropy of the proxy.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from isojepa.arguments import checked
from isojepa.seeds import generator
from isojepa.worlds.recorded import Arrays, Recorded
from isojepa.worlds.trajectories import Trajectories

_CHUNK = 4096  # observations that are mapped at once


@checked
def principal_components(
    observations: Arrays, dim: int, *, samples: int = 10_000, seed: int = 0
) -> Callable[[Tensor], Tensor]:
    """The projection of observations on their first principal components.

    Args:
        observations: (steps, paths, ...) or a list of (steps_i, ...).
        dim: number of components.
        samples: observations to find them from.
        seed: draws those.

    Returns:
        A function from observations (batch, ...) to (batch, dim).

    Raises:
        ValueError: there are not as many components, or an observation is not finite.
    """
    seen = Trajectories.of("observations", observations)
    drawn = torch.randperm(int(seen.lengths.sum()), generator=generator(seed, "principal-components"))
    path, step = _places(seen, np.sort(drawn[:samples].numpy()))
    x = torch.from_numpy(np.asarray(seen.gather(path, step), dtype=np.float64)).flatten(1)
    if not torch.isfinite(x).all():
        raise ValueError("observations must be finite, got NaN or Inf among those drawn")
    if not 1 <= dim <= min(x.shape):
        raise ValueError(f"dim must lie between 1 and {min(x.shape)}, got {dim}")
    mean = x.mean(0)
    _, _, right = torch.linalg.svd(x - mean, full_matrices=False)
    basis = right[:dim].T.contiguous()
    return lambda batch: (batch.double().flatten(1) - mean) @ basis


@torch.no_grad()
@checked
def project(
    observations: Arrays,
    function: Callable[[Tensor], Tensor],
    transform: Callable[[Tensor], Tensor] | None = None,
) -> list[np.ndarray]:
    """A function of the observations along every path: a list of (steps_i, dim), as `Recorded` takes states.

    Args:
        observations: (steps, paths, ...) or a list of (steps_i, ...).
        function: maps observations (batch, ...) to (batch, dim), e.g. an encoder in evaluation mode.
        transform: applied to observations before the function; by default they become float32.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(20, 3, 8))
        >>> states = project(x, principal_components(x, dim=2))
        >>> len(states), states[0].shape
        (3, (20, 2))
    """
    seen = Trajectories.of("observations", observations)
    total, parts = int(seen.lengths.sum()), []
    for start in range(0, total, _CHUNK):
        place = np.arange(start, min(start + _CHUNK, total))
        x = torch.from_numpy(np.ascontiguousarray(seen.gather(*_places(seen, place))))
        value = function(x.float() if transform is None else transform(x))
        if not isinstance(value, Tensor) or value.ndim != 2 or len(value) != len(place):
            raise ValueError("proxy must map observations (batch, ...) to a tensor (batch, dim)")
        parts.append(value.detach().cpu().double().numpy())
    return np.split(np.concatenate(parts), np.cumsum(seen.lengths)[:-1])


def stand_in(recorded: Recorded, proxy: Arrays | Callable[[Tensor], Tensor]) -> Recorded:
    """The same pairs with the proxy in place of the states.

    Args:
        recorded: the trajectories.
        proxy: values beside the states, of the same lengths; or a function of observations (batch, ...).

    Raises:
        ValueError: the proxy's lengths are not those of the states, or there are no observations.
    """
    values: Arrays
    if callable(proxy):
        if recorded.observations is None:
            raise ValueError("observations must be given to Recorded for a proxy that maps them, got none")
        values = project(recorded.observations, proxy, recorded.transform)
    else:
        values = proxy
    shadow = Recorded(values, stride=recorded.stride, swap=recorded.swap)
    shadow.states.check_lengths("proxy", recorded.states)
    return shadow.reweighted(recorded.weights)


def _places(seen: Trajectories, place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Path and step of numbers that count all steps of the first path, then of the second, ..."""
    ends = np.cumsum(seen.lengths)
    path = np.searchsorted(ends, place, side="right")
    return path, place - (ends - seen.lengths)[path]
