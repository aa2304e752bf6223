r"""Models of the latent that planners step: linear ones, fitted in closed form, and any function.

    h' = A h + B a + c

A and B are those of least squares on recorded (h, a, h'), in float64. In rotated latents Q h the same fit
gives Q A Q^T and Q B, so whatever is planned is the same. Directions of the latent in which it does not vary
beyond the rounding of an encoder's float32 have no coefficients: fitted to rounding, they would be huge.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from isojepa.encoders.dynamics import Stepwise
from isojepa.linear import least_squares

_ROUNDING = 1e-5  # of a singular value against the largest, columns scaled to variance 1


@dataclass(frozen=True)
class LinearDynamics(Stepwise):
    """A linear model.

    Attributes:
        a: (dim, dim), of the latent.
        b: (dim, m), of the actions.
        offset: (dim,).
    """

    a: Tensor
    b: Tensor
    offset: Tensor

    @classmethod
    def fit(cls, h: np.ndarray, actions: np.ndarray, h_next: np.ndarray) -> "LinearDynamics":
        """The model of least squared error.

        Args:
            h, h_next: (n, dim) latents before and after.
            actions: (n, m).

        Raises:
            ValueError: there are fewer rows than coefficients of one coordinate.
        """
        x = np.concatenate((h, actions), 1)
        if len(x) <= x.shape[1]:
            raise ValueError(f"h must have more than {x.shape[1]} rows to fit a model to, got {len(x)}")
        # `fit_transition` refuses directions that do not vary, since it is asked what A and B are; a planner
        # never goes there, and plans as well without them
        fitted = least_squares(x, h_next, rounding=_ROUNDING)
        matrix = torch.from_numpy(fitted.matrix.T.copy())
        offset = torch.from_numpy(fitted.offset - fitted.centre @ fitted.matrix)
        return cls(matrix[:, : h.shape[1]], matrix[:, h.shape[1] :], offset)

    def step(self, h: Tensor, a: Tensor) -> Tensor:
        """The next latents (batch, dim) of latents (batch, dim) after actions (batch, m)."""
        return torch.addmm(self.offset.to(h), h, self.a.to(h).T) + a @ self.b.to(h).T

    def to(self, like: Tensor) -> "LinearDynamics":
        """In the type and on the device of a tensor."""
        return LinearDynamics(self.a.to(like), self.b.to(like), self.offset.to(like))


@dataclass(frozen=True)
class FunctionDynamics(Stepwise):
    """A function or module of (h, a) as a model."""

    function: Callable[[Tensor, Tensor], Tensor]

    def step(self, h: Tensor, a: Tensor) -> Tensor:
        """The next latents (batch, dim) of latents (batch, dim) after actions (batch, m)."""
        return self.function(h, a)
