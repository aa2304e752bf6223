"""LeJEPA's loss of global and local views against that of lightly, and against its projections alone.

Both draw their directions, compute alignment and SIGReg, and go back to the embeddings. lightly's grid is
17 knots on [0, 3], which is 33 on [-3, 3] here: the same statistic on the same embeddings. One thread, and
processor time, so that what else the machine does falls on neither.
"""

from collections.abc import Callable

import torch
from measure import peak_kib, processor_time, row

import isojepa as ij
from isojepa.importing import import_torchvision
from isojepa.objectives.directions import draw_directions

GLOBAL, LOCAL, SLICES = 2, 6, 1024


def lejepa() -> list[dict]:
    """Both shapes of the target."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return [*_against_lightly(128, 64, 30), *_against_lightly(512, 512, 15), *_knots()]
    finally:
        torch.set_num_threads(threads)


def _against_lightly(batch: int, dim: int, least: float) -> list[dict]:
    source = ij.generator(0, "bench")
    views = torch.randn(GLOBAL + LOCAL, batch, dim, generator=source).requires_grad_()
    theirs = lightly_loss()
    ours = ij.objectives.LeJEPA(0.05, ij.objectives.SIGReg(SLICES, knots=33, t_max=3.0))
    published = ij.objectives.LeJEPA(0.05, ij.objectives.SIGReg(SLICES))
    directions = draw_directions(dim, SLICES, source)
    projections = torch.empty(GLOBAL + LOCAL, SLICES, batch)
    gradient = torch.empty(GLOBAL + LOCAL, batch, dim)

    def project() -> None:
        with torch.no_grad():
            torch.matmul(directions, views.mT, out=projections)
            torch.bmm(projections.mT, directions.expand(GLOBAL + LOCAL, -1, -1), out=gradient)

    tasks: dict[str, Callable[[], object]] = {
        "lightly": lambda: torch.autograd.grad(
            theirs(global_proj=views[:GLOBAL], local_proj=views[GLOBAL:]), views
        ),
        "ours": lambda: torch.autograd.grad(ours(views, source, global_views=GLOBAL).total, views),
        "17 knots": lambda: torch.autograd.grad(published(views, source, global_views=GLOBAL).total, views),
        "projections": project,
    }
    times = processor_time(tasks)
    name = f"LeJEPA {GLOBAL} + {LOCAL} views of {batch} x {dim}, {SLICES} slices"
    return [
        row(f"{name}: time, lightly / ours", times["lightly"] / times["ours"], least, times),
        row(f"{name}: time, lightly / ours with 17 knots in all", times["lightly"] / times["17 knots"], None),
        row(f"{name}: ours / its projections, to and back", times["ours"] / times["projections"], None),
        row(f"{name}: with 17 knots / its projections", times["17 knots"] / times["projections"], None),
    ]


def _knots() -> list[dict]:
    """SIGReg's memory does not depend on the knots."""
    shape = (GLOBAL + LOCAL) * 128, 64, SLICES
    memory = {str(knots): peak_kib("fused", (*shape, knots)) for knots in (17, 257)}
    return [
        row("LeJEPA 8 x 128 x 64: memory at 257 knots / at 17", memory["257"] / memory["17"], -1.1, memory)
    ]


def lightly_loss() -> torch.nn.Module:
    """lightly's loss with its own defaults: 1,024 slices, 17 knots on [0, 3]."""
    import_torchvision()  # lightly asks for it
    from lightly.loss import LeJEPALoss

    return LeJEPALoss()
