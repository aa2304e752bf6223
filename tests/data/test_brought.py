"""Data of one's own in fit and certify: pairs, datasets, DataLoaders, and recordings without states."""

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, WeightedRandomSampler

import isojepa as ij
from isojepa.data import Observed, Streams, as_source
from isojepa.testing import check_source

WORLD = ij.data.World(ij.data.OrnsteinUhlenbeck(dim=2, rho=0.95), ij.data.Spiral())
BATCH = WORLD.sample(300, ij.generator(0, "brought"))
X, X_NEXT = BATCH.views
SMALL = {"steps": 3, "eval_every": 3, "eval_samples": 16, "progress": False}


class Rows(Dataset):
    """Items by number, of any form; noise from torch's own generator."""

    def __init__(self, form, noise: float = 0.0) -> None:
        self.form, self.noise = form, noise

    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, index: int):
        return self.form(X[index] + self.noise * torch.randn(2), X_NEXT[index])


class Stream(IterableDataset):
    def __iter__(self):
        return iter(zip(X, X_NEXT, strict=True))


FORMS = {
    "pairs": lambda: (X, X_NEXT),
    "arrays": lambda: [X.numpy(), X_NEXT.double().numpy()],
    "dict": lambda: {"x": X, "x_next": X_NEXT, "z": BATCH.z[0], "z_next": BATCH.z[1]},
    "dataset": lambda: TensorDataset(X, X_NEXT),
    "loader": lambda: DataLoader(TensorDataset(X, X_NEXT), batch_size=32, shuffle=True),
    "loader of dicts": lambda: DataLoader(Rows(lambda x, y: {"x": x, "x_next": y}), batch_size=32),
    "loader of views and label": lambda: DataLoader(Rows(lambda x, y: ([x, y], 1)), batch_size=32),
    "pairs with label": lambda: DataLoader(Rows(lambda x, y: (x, y, 1)), batch_size=32),
    "stream": lambda: DataLoader(Stream(), batch_size=32),
    "weighted": lambda: DataLoader(
        TensorDataset(X, X_NEXT), batch_size=32, sampler=WeightedRandomSampler(torch.ones(300), 300)
    ),
}


def encoder() -> torch.nn.Module:
    return ij.encoders.MLP(in_dim=2, out_dim=2, width=8, layers=2)


@pytest.mark.parametrize("form", FORMS)
def test_fit_trains_on_it_and_certify_judges_it(form):
    model = encoder()
    run = ij.fit(model, FORMS[form](), ij.objectives.LeJEPA(), seed=0, **SMALL)
    assert run.metrics[-1]["step"] == 3
    # 100,000 pairs by default: of a finite set each once, and a stream has no end
    samples = 200 if form in ("stream", "weighted") else None
    certificate = ij.certify(model, FORMS[form](), rho=0.95, checks=False, samples=samples)
    assert certificate.samples == (300 if samples is None else 200)
    assert certificate.bound is not None


def test_a_loader_brings_its_batch_size_unless_one_is_given():
    sizes = []

    class Counting(Dataset):
        def __len__(self) -> int:
            return len(X)

        def __getitem__(self, index: int):
            return X[index], X_NEXT[index]

    def collate(items):
        sizes.append(len(items))
        return torch.utils.data.default_collate(items)

    loader = DataLoader(Counting(), batch_size=24, collate_fn=collate)
    spread = ij.probes.Spread(WORLD, samples=16)
    ij.fit(encoder(), loader, ij.objectives.LeJEPA(), evaluations=[spread], **SMALL)
    assert sizes[-3:] == [24, 24, 24]
    ij.fit(
        encoder(), loader, ij.objectives.LeJEPA(), evaluations=[spread], **SMALL, batch=40, batch_start=None
    )
    assert sizes[-3:] == [40, 40, 40]


def test_what_is_random_in_an_item_comes_from_the_seed_alone():
    source = as_source(DataLoader(Rows(lambda x, y: (x, y), noise=1.0), batch_size=8))
    ids = torch.arange(6)
    before = torch.get_rng_state()
    views = [source.take(ids, Streams(5, torch.zeros(6), ids)).views[0] for _ in range(2)]
    assert torch.equal(*views)
    assert torch.equal(before, torch.get_rng_state())
    later = source.take(ids.flip(0), Streams(5, torch.zeros(6), ids.flip(0))).views[0]
    assert torch.equal(later.flip(0), views[0])  # of the state, not of its place in the batch
    assert not torch.equal(source.take(ids, Streams(5, torch.ones(6), ids)).views[0], views[0])


def test_loaders_keep_the_contract_of_a_source():
    check_source(as_source(DataLoader(TensorDataset(X, X_NEXT))))
    check_source(Observed(X.reshape(100, 3, 2)))


def test_a_stream_goes_round_and_has_no_record(tmp_path):
    source = as_source(DataLoader(Stream(), batch_size=7))
    seen = torch.cat([source.sample(n, ij.generator(0, "x")).views[0] for n in (5, 300, 4)])
    assert torch.equal(seen, torch.cat((X, X[:9])))
    with pytest.raises(ValueError, match="items by number"):
        ij.fit(encoder(), source, ij.objectives.LeJEPA(), record=tmp_path / "run", **SMALL)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (X, r"pairs, \(x, x_next\).*Observed"),
        ((X, X_NEXT[:5]), "equal lengths"),
        ({"x": X}, "x and x_next"),
        ({"x": X, "x_next": X_NEXT, "z": X}, "z and z_next, or neither"),
        (DataLoader(TensorDataset(X, torch.zeros(300))), r"two views.*augment\(x\)"),
        (DataLoader([]), "empty set"),
        (3, "must be a source"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",  # data have no names
)
def test_what_is_no_pair_is_answered_with_what_is(given, told):
    with pytest.raises(ValueError, match=told):
        ij.fit(encoder(), given, ij.objectives.LeJEPA(), **SMALL)


PATHS = [np.random.default_rng(i).normal(size=(n, 3)).cumsum(0) for i, n in enumerate((20, 35, 4))]


def test_a_recording_without_states_gives_neighbours_of_one_path():
    known = {
        (tuple(np.float32(a)), tuple(np.float32(b)))
        for path in PATHS
        for a, b in zip(path[:-2], path[2:], strict=True)
    }
    source = Observed(PATHS, stride=2)
    assert source.pairs == len(known)
    batch = source.sample(400, ij.generator(0, "x"))
    drawn = {(tuple(a), tuple(b)) for a, b in zip(*(view.numpy() for view in batch.views), strict=True)}
    assert drawn <= known
    assert len(drawn) > 0.9 * len(known)
    assert batch.z is None
    assert (np.diff(source.in_order().sample(50, ij.generator(0, "x")).ids) >= 0).all()
    train, held_out = source.split(0.3)
    assert train.paths + held_out.paths == 3


def test_a_recording_without_states_trains_and_is_certified_without_labels():
    path = WORLD.trajectory(12, 40, ij.generator(1, "x")).x
    model = encoder()
    ij.fit(model, Observed(path), ij.objectives.LeJEPA(), **SMALL)
    certificate = ij.certify(model, Observed(path), rho=0.95, samples=400)
    assert certificate.recovery is None
    assert certificate.bound is not None
    assert certificate.assumptions
    with pytest.raises(ValueError, match="brings its own rho"):
        ij.certify(model, WORLD, rho=0.5)
    with pytest.raises(ValueError, match="Observed"):
        ij.data.Recorded(None, path)
