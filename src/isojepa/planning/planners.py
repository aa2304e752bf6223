r"""Planners over any model of a latent: sampling, gradients, quadratic programs, and inverse dynamics.

Colored noise has a power spectrum that falls as frequency^-beta:

    x_t = sum_k s_k (u_k cos 2 pi k t / H + v_k sin 2 pi k t / H),    s_k ~ max(k, 1)^(-beta / 2)

with standard normal u, v, scaled to variance 1 at every step. beta 0 is white noise; 2 moves slowly, as
arms do (Pinneri et al. 2020, "Sample-efficient cross-entropy method", after Timmer & Koenig 1995).

Cross-entropy method: each iteration draws candidates around a mean with a standard deviation per step and
action, clips them, and takes mean and standard deviation over the `elites` that cost least (Rubinstein 1999).
The defaults, 300 candidates, 30 iterations, 30 elites and a horizon of 5, are those of published latent
planners.

iCEM (Pinneri et al. 2020) needs fewer: noise is colored in time, some elites stay candidates, mean and
standard deviation move by a part of the way, and the population shrinks from iteration to iteration.

Model predictive path integrals: the mean of all candidates, weighted by cost,

    a <- sum_i w_i a^i,    w_i = exp(-(S_i - min S) / lambda) / sum_j exp(-(S_j - min S) / lambda)

with candidates a^i = a + noise of cost S_i (Williams et al. 2017). lambda is in units of the mean cost
above the best candidate, since costs of latents have no natural unit; the noise shrinks from iteration to
iteration.

Gradient planning: Adam on the actions, through the model, from several starts at once. After each step
actions are projected onto the bounds. The plan is the cheapest sequence of actions over all starts and
steps.

Linear model predictive control: the quadratic program of a linear model.

Along a nominal rollout the model is h_{t+1} ~ A_t h_t + B_t a_t + c_t, with Jacobians by automatic
differentiation, of the stacked context: exact for a linear model. The latents are then affine in the
actions, h = G a + f, and

    min over a in [low, high]    |R (G a + f - g)|^2 + effort |a|^2

is solved in closed form and clipped; where bounds are active, accelerated projected gradients (Nesterov)
continue from there to the optimum within them. For models that are not linear a few passes, each around the
plan of the pass before, are Gauss-Newton.

Inverse dynamics, a goal-conditioned policy:

    a_t ~ network(h_t, g_{t+k} - g_t, k),    k from 1 to `reach`

trained on recorded episodes, each later latent being a goal of the earlier ones. It needs no model and no
search: one pass of a small network for each action. g are the columns of the latent that a goal has, e.g.
without the change since the last frame. A goal farther away than recorded ones were is replaced by the
point on the straight line to it that is as far as they were, which is where a straight line is worth
something.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from isojepa.encoders.world_model import Dynamics
from isojepa.planning.problems import GoalCost, Plan, Planner, Problem, normal
from isojepa.seeds import generator as make_generator
from isojepa.training.fine_tuning import StandardizedNetwork, fit_network
from isojepa.validation import check_count, check_number, validate_fields, validate_types


def spectrum(horizon: int, beta: float) -> Tensor:
    """(horizon // 2 + 1,) power at each frequency k / horizon, such that the variance of a step is 1."""
    frequency = torch.arange(horizon // 2 + 1, dtype=torch.float64).clamp_min(1.0)
    power = frequency**-beta
    # frequency 0, and the last of an even horizon, have a cosine alone; all others a sine besides
    share = torch.full_like(power, 2.0)
    share[0] = 1.0
    if horizon % 2 == 0:
        share[-1] = 1.0
    return power / (share * power).sum()


def colored_noise(shape: tuple[int, ...], beta: float, generator: torch.Generator, like: Tensor) -> Tensor:
    """Normal noise of variance 1 that is colored along the axis before the last.

    Args:
        shape: (..., horizon, m).
        beta: how steeply the spectrum falls.
        generator: draws it.
        like: whose type and device it has.
    """
    *rows, horizon, width = shape
    # steps lie one after the other in memory: each is then read, by the model, in one piece
    white = normal((horizon, *rows, width), generator, like)
    if beta and horizon > 1:
        # white noise has the same power at all frequencies: its transform is weighted and taken back
        gain = torch.sqrt(spectrum(horizon, beta) * horizon).to(white)
        weighted = torch.fft.rfft(white, dim=0) * gain.view(-1, *[1] * (white.ndim - 1))
        white = torch.fft.irfft(weighted, n=horizon, dim=0)
    return white.movedim(0, -2)


@dataclass(frozen=True)
class CEM:
    """The cross-entropy method.

    Attributes:
        horizon: steps of the model that are planned.
        candidates: drawn at the first iteration.
        iterations: of drawing and choosing.
        elites: that the next are drawn around.
        spread: initial standard deviation, in units of the action space.
        momentum: share of the old mean and deviation that stays.
        colour: exponent beta of the noise, see `colored_noise`; 0 is white.
        kept: share of the elites that stay candidates.
        shrink: by which the number of candidates is divided at each iteration.
    """

    horizon: int = 5
    candidates: int = 300
    iterations: int = 30
    elites: int = 30
    spread: float = 1.0
    momentum: float = 0.0
    colour: float = 0.0
    kept: float = 0.0
    shrink: float = 1.0

    def __post_init__(self) -> None:
        validate_fields(self)
        for name in ("horizon", "candidates", "iterations"):
            check_count(name, getattr(self, name))
        check_count("elites", self.elites, 2, self.candidates)
        check_number("spread", self.spread, "be positive and finite", lambda value: value > 0)
        check_number("momentum", self.momentum, "lie in [0, 1)", lambda value: 0 <= value < 1)
        check_number("colour", self.colour, "be at least 0", lambda value: value >= 0)
        check_number("kept", self.kept, "lie in [0, 1]", lambda value: 0 <= value <= 1)
        check_number("shrink", self.shrink, "be at least 1", lambda value: value >= 1)

    @property
    def populations(self) -> tuple[int, ...]:
        """Candidates that are drawn at each iteration; never fewer than twice the elites, if so many."""
        least = min(self.candidates, 2 * self.elites)
        counts = (self.candidates * self.shrink**-i for i in range(self.iterations))
        return tuple(max(least, math.floor(count)) for count in counts)

    @torch.no_grad()
    def plan(self, problem: Problem, generator: torch.Generator, previous: Tensor | None = None) -> Plan:
        """A plan for each problem: the cheaper of the last mean and the best candidate of all."""
        space, scored = problem.space, 0
        mean = problem.around(self.horizon, previous)
        one, each = mean.shape[1:], torch.arange(len(problem), device=mean.device)
        std = (self.spread * space.unit).expand_as(mean)
        least, best = [], []  # of each iteration; which of them is the least of all is asked once, at the end
        keep = round(self.kept * self.elites)
        stay = mean.new_empty((len(problem), 0, *one))
        for count in self.populations:
            candidates = colored_noise((len(problem), count, *one), self.colour, generator, mean)
            candidates = torch.addcmul(mean[:, None], candidates, std[:, None])
            candidates[:, 0] = mean
            space.clip_(candidates)
            candidates = torch.cat((candidates, stay), 1) if stay.shape[1] else candidates
            scored += candidates.shape[1]
            low, order = problem.costs(candidates).topk(self.elites, dim=1, largest=False)
            elites = candidates.gather(1, order[:, :, None, None].expand(-1, -1, *one))
            least.append(low[:, 0])
            best.append(elites[:, 0].clone())  # a view would keep all elites of all iterations
            middle = elites.mean(1)
            width = (elites - middle[:, None]).square_().mean(1).sqrt_()
            mean = torch.lerp(middle, mean, self.momentum) if self.momentum else middle
            std = torch.lerp(width, std, self.momentum) if self.momentum else width
            stay = elites[:, :keep]
        ends = torch.stack((torch.stack(best)[torch.stack(least).argmin(0), each], space.clip(mean)), 1)
        cheaper = problem.costs(ends).argmin(1)
        return problem.finished(ends[each, cheaper], (scored + 2) * self.horizon)


@dataclass(frozen=True)
class ICEM(CEM):
    """The cross-entropy method that needs fewer candidates; the attributes are those of `CEM`."""

    candidates: int = 128
    iterations: int = 8
    elites: int = 16
    momentum: float = 0.1
    colour: float = 2.0
    kept: float = 0.3
    shrink: float = 1.25


def path_weights(costs: Tensor, temperature: float | Tensor) -> Tensor:
    """Weights (..., candidates) of costs (..., candidates), which sum to 1; temperature broadcasts.

    Example:
        >>> path_weights(torch.tensor([0.0, 1.0]), 1.0).tolist()
        [0.7310585975646973, 0.2689414322376251]
    """
    return torch.softmax(-(costs - costs.amin(-1, keepdim=True)) / temperature, -1)


@dataclass(frozen=True)
class MPPI:
    """Model predictive path integrals.

    Attributes:
        horizon: steps of the model that are planned.
        candidates: drawn at each iteration.
        iterations: of drawing and weighing.
        temperature: lambda, in units of mean minus least cost of the candidates.
        spread: initial noise (standard deviation), in units of the action space.
        shrink: by which the noise is divided at each iteration.
        colour: exponent beta of the noise, see `colored_noise`.
    """

    horizon: int = 5
    candidates: int = 300
    iterations: int = 20
    temperature: float = 0.1
    spread: float = 1.0
    shrink: float = 1.25
    colour: float = 0.0

    def __post_init__(self) -> None:
        validate_fields(self)
        for name in ("horizon", "candidates", "iterations"):
            check_count(name, getattr(self, name))
        for name in ("temperature", "spread"):
            check_number(name, getattr(self, name), "be positive and finite", lambda value: value > 0)
        check_number("shrink", self.shrink, "be at least 1", lambda value: value >= 1)
        check_number("colour", self.colour, "be at least 0", lambda value: value >= 0)

    @torch.no_grad()
    def plan(self, problem: Problem, generator: torch.Generator, previous: Tensor | None = None) -> Plan:
        """A plan for each problem: the weighted mean after the last iteration."""
        mean = problem.around(self.horizon, previous)
        std = self.spread * problem.space.unit
        tiny = torch.finfo(mean.dtype).tiny
        for _ in range(self.iterations):
            noise = colored_noise(
                (len(problem), self.candidates, *mean.shape[1:]), self.colour, generator, mean
            )
            candidates = problem.space.clip_(mean[:, None] + std * noise)
            costs = problem.costs(candidates)
            finite = torch.isfinite(costs)
            excess = torch.where(finite, costs - costs.amin(1, keepdim=True), 0.0)
            scale = excess.sum(1, keepdim=True) / finite.sum(1, keepdim=True).clamp_min(1)
            weights = path_weights(costs, (self.temperature * scale).clamp_min(tiny))
            mean = torch.einsum("pc,pchm->phm", weights, candidates)
            std = std / self.shrink
        return problem.finished(mean, self.iterations * self.candidates * self.horizon)


@dataclass(frozen=True)
class Gradient:
    """Adam on actions.

    Attributes:
        horizon: steps of the model that are planned.
        starts: from which it descends; the first is the center, or the plan before.
        iterations: of Adam.
        rate: its step, in units of the action space; falls to 0 as a cosine.
        spread: standard deviation (other starts), in units of the action space.
    """

    horizon: int = 5
    starts: int = 8
    iterations: int = 60
    rate: float = 0.2
    spread: float = 0.5

    def __post_init__(self) -> None:
        validate_fields(self)
        for name in ("horizon", "starts", "iterations"):
            check_count(name, getattr(self, name))
        for name in ("rate", "spread"):
            check_number(name, getattr(self, name), "be positive and finite", lambda value: value > 0)

    def plan(self, problem: Problem, generator: torch.Generator, previous: Tensor | None = None) -> Plan:
        """A plan for each problem: the best that was seen."""
        space = problem.space
        space.check_continuous("the gradient planner")
        first = problem.around(self.horizon, previous)
        noise = normal((len(problem), self.starts, *first.shape[1:]), generator, first)
        noise[:, 0] = 0.0
        # in units of the space, so that one rate serves actions of any scale
        units = (space.clip(first[:, None] + self.spread * space.unit * noise) - space.center) / space.unit
        units.requires_grad_()
        optimizer = torch.optim.Adam([units], lr=self.rate)
        best = first
        least = first.new_full((len(problem),), math.inf)
        for step in range(self.iterations + 1):
            optimizer.param_groups[0]["lr"] = self.rate * (1 + math.cos(math.pi * step / self.iterations)) / 2
            with torch.enable_grad():
                actions = space.center + space.unit * units
                costs = problem.costs(actions)
                (gradient,) = torch.autograd.grad(costs.sum(), units)
            with torch.no_grad():
                low, place = costs.min(1)
                better = low < least
                chosen = actions[torch.arange(len(problem), device=place.device), place]
                best = torch.where(better[:, None, None], chosen, best)
                least = torch.where(better, low, least)
            units.grad = torch.nan_to_num(gradient, nan=0.0, posinf=0.0, neginf=0.0)
            optimizer.step()
            with torch.no_grad():
                units.copy_((space.clip(space.center + space.unit * units) - space.center) / space.unit)
        return problem.finished(space.clip(best), (self.iterations + 1) * self.starts * self.horizon)


@dataclass(frozen=True)
class LinearMPC:
    """The best actions of the linearised model; its cost must be a `GoalCost`.

    Attributes:
        horizon: steps of the model that are planned.
        passes: of linearising around the last plan; 1 is exact for a linear model.
        refinements: steps of projected gradients where bounds are active; 0 clips alone.
    """

    horizon: int = 5
    passes: int = 1
    refinements: int = 100

    def __post_init__(self) -> None:
        validate_fields(self)
        check_count("horizon", self.horizon)
        check_count("passes", self.passes)
        check_count("refinements", self.refinements, 0)

    def plan(self, problem: Problem, generator: torch.Generator, previous: Tensor | None = None) -> Plan:
        """A plan for each problem; nothing is drawn.

        Raises:
            ValueError: the cost is no `GoalCost`.
        """
        cost = problem.cost
        if not isinstance(cost, GoalCost):
            raise ValueError(f"cost must be a GoalCost for LinearMPC, got {type(cost).__name__}")
        problem.space.check_continuous("linear MPC")
        actions = problem.around(self.horizon, previous)
        for _ in range(self.passes):
            actions = self._solved(problem, cost, actions)
        return problem.finished(actions, self.passes * self.horizon * (1 + problem.contexts[0].numel()))

    def _solved(self, problem: Problem, cost: GoalCost, nominal: Tensor) -> Tensor:
        with torch.no_grad():
            latents = problem.rollout(nominal)
        count, horizon, width = nominal.shape
        context, dim = problem.contexts.shape[1:]
        states = latents.unfold(1, context, 1)[:, :horizon].mT.flatten(2)  # each with those before it
        a, b = jacobians(problem.dynamics, states.flatten(0, 1), nominal.flatten(0, 1))
        a, b = a.unflatten(0, (count, horizon)), b.unflatten(0, (count, horizon))
        response = _responses(a, b)[:, :, -dim:]
        # what is left at the nominal actions, with angles the short way round
        difference = cost.difference(latents[:, context:], problem.goal[:, None])
        root = cost.root_weights(horizon, latents)
        tall = (root[:, :, None] * response.flatten(3)).flatten(1, 2)
        flat = nominal.flatten(1)
        short = (root * difference).flatten(1) - (tall @ flat[..., None])[..., 0]
        hessian = tall.mT @ tall + cost.effort * torch.eye(horizon * width).to(tall)
        slope = (tall.mT @ short[..., None])[..., 0]
        low, high = (end.repeat(horizon) for end in (problem.space.low, problem.space.high))
        return _box_minimum(hessian, slope, low, high, self.refinements).view_as(nominal)


def jacobians(dynamics: Dynamics, h: Tensor, a: Tensor) -> tuple[Tensor, Tensor]:
    """How the next stacked context changes with the present one and the action.

    Args:
        dynamics: the model.
        h: (n, size) latents of its context, one after the other.
        a: (n, m) actions.

    Returns:
        (n, size, size) and (n, size, m).
    """
    with torch.enable_grad():
        h, a = h.detach().requires_grad_(), a.detach().requires_grad_()
        latents = h.unflatten(1, (dynamics.context, -1))
        moved = torch.cat((latents[:, 1:], dynamics.rollout(latents, a[:, None])), 1).flatten(1)
        rows = [
            torch.autograd.grad(moved[:, i].sum(), (h, a), retain_graph=True, materialize_grads=True)
            for i in range(h.shape[1])
        ]
    return torch.stack([row[0] for row in rows], 1), torch.stack([row[1] for row in rows], 1)


def _box_minimum(hessian: Tensor, slope: Tensor, low: Tensor, high: Tensor, refinements: int) -> Tensor:
    """The minimum of x^T hessian x / 2 + slope^T x between bounds, for each of several problems.

    Args:
        hessian: (problems, n, n), symmetric and not negative.
        slope: (problems, n).
        low, high: (n,).
        refinements: steps of projected gradients after the clipped closed form.
    """
    free = -(torch.linalg.pinv(hessian, hermitian=True) @ slope[..., None])[..., 0]
    x = torch.clamp(free, low, high)
    if not refinements or bool(torch.equal(x, free)):
        return x
    rate = 1 / torch.linalg.matrix_norm(hessian, 2).clamp_min(torch.finfo(x.dtype).tiny)[:, None]
    ahead, inertia = x, 1.0
    for _ in range(refinements):
        downhill = (hessian @ ahead[..., None])[..., 0] + slope
        moved = torch.clamp(ahead - rate * downhill, low, high)
        faster = (1 + (1 + 4 * inertia**2) ** 0.5) / 2
        ahead = moved + (inertia - 1) / faster * (moved - x)
        x, inertia = moved, faster
    return x


def _responses(a: Tensor, b: Tensor) -> Tensor:
    """(problems, horizon, dim, horizon, m): how the latent after step t moves with the action of step s."""
    count, horizon, dim, width = b.shape
    response = b.new_zeros((count, horizon, dim, horizon, width))
    for step in range(horizon):
        if step:
            moved = a[:, step] @ response[:, step - 1].flatten(2)
            response[:, step] = moved.view(count, dim, horizon, width)
        response[:, step, :, step] = b[:, step]
    return response


_ROWS = 100_000  # pairs of rows that are drawn for training


@dataclass(frozen=True)
class InverseDynamics:
    """A policy in the place of a planner: its plans have one step.

    Attributes:
        network: (h, difference to the goal, k) to actions.
        goal_width: how many of the first columns of a latent a goal has.
        ahead: k, the steps within which the goal should be reached.
        radius: how far goals were that many steps ahead in 95 % of the recordings.
        horizon: 1.
    """

    network: StandardizedNetwork
    goal_width: int
    ahead: int
    radius: float
    horizon: int = 1

    @classmethod
    @validate_types
    def fit(
        cls,
        latents: Sequence[np.ndarray],
        actions: Sequence[np.ndarray],
        *,
        goal_width: int | None = None,
        reach: int = 10,
        ahead: int = 5,
        steps: int = 1000,
        seed: int = 0,
    ) -> "InverseDynamics":
        """Train a policy on recorded episodes.

        Args:
            latents: (steps_i, dim) of each episode.
            actions: (steps_i, m) taken there; the last row is ignored.
            goal_width: how many of the first columns of a latent a goal has; all by default.
            reach: the most steps that a goal lies ahead.
            ahead: steps within which the policy is asked to be there.
            steps: of training.
            seed: draws rows and weights.

        Raises:
            ValueError: lengths differ, or no episode is longer than `ahead`.
        """
        check_count("reach", reach)
        check_count("ahead", ahead, 1, reach)
        if len(latents) != len(actions) or any(
            len(h) != len(a) for h, a in zip(latents, actions, strict=True)
        ):
            raise ValueError("actions must have as many steps as latents in every episode")
        lengths = np.array([len(h) for h in latents])
        if not len(lengths) or lengths.max() <= ahead:
            raise ValueError(f"an episode must be longer than ahead, {ahead}, got {lengths.max(initial=0)}")
        h, a = (torch.from_numpy(np.concatenate(rows)).float() for rows in (latents, actions))
        width = h.shape[1] if goal_width is None else check_count("goal_width", goal_width, 1, h.shape[1])
        remaining = torch.from_numpy(np.concatenate([np.arange(n)[::-1].copy() for n in lengths]))
        places = torch.arange(len(h))
        before = places[remaining >= ahead]
        radius = (h[before + ahead, :width] - h[before, :width]).norm(dim=1).quantile(0.95)
        source = make_generator(seed, "inverse dynamics")
        usable = places[remaining >= 1]
        row = usable[torch.randint(len(usable), (_ROWS,), generator=source)]
        furthest = remaining[row].clamp_max(reach)
        k = 1 + (torch.rand(_ROWS, generator=source) * furthest).long().clamp_max(furthest - 1)
        x = torch.cat((h[row], h[row + k, :width] - h[row, :width], k[:, None].float()), 1)
        return cls(fit_network(x, a[row], steps=steps, seed=seed), width, ahead, float(radius))

    @torch.no_grad()
    def plan(self, problem: Problem, generator: torch.Generator, previous: Tensor | None = None) -> Plan:
        """One action for each problem, deterministic; the model is used for the cost only.

        Raises:
            ValueError: the policy was trained for latents or actions of another width.
        """
        start = problem.start.flatten(1)
        way = problem.goal[:, : self.goal_width] - start[:, : self.goal_width]
        way = way * (self.radius / way.norm(dim=1, keepdim=True).clamp_min(self.radius))
        inputs = torch.cat((start, way, way.new_full((len(way), 1), self.ahead)), 1).float()
        takes, gives = len(self.network.x_mean), len(self.network.y_mean)
        if inputs.shape[1] != takes or problem.space.width != gives:
            raise ValueError(
                f"the policy takes latents of {takes - self.goal_width - 1} and gives {gives} actions, got "
                f"{start.shape[1]} and {problem.space.width}"
            )
        actions = problem.space.clip(self.network(inputs).to(problem.start))
        return problem.finished(actions[:, None], 1)


SEARCHES: dict[str, Callable[[int], Planner]] = {
    "cem": CEM,
    "icem": ICEM,
    "mppi": MPPI,
    "gradient": Gradient,
    "mpc": lambda horizon: LinearMPC(horizon, passes=2),
}
