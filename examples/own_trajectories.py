"""Trajectories of your own: npy files -> pairs nearer to the Gaussian world -> an encoder -> a certificate.

Here they come from a simulated arm that reaches for goals: its states are neither Gaussian nor equally fast;
yours come from your robot, game or simulator. The states only choose among pairs and score the result: the
encoder sees the observations, which are read from the file as they are needed.
"""

import tempfile
from pathlib import Path

import numpy as np

import isojepa as ij

with tempfile.TemporaryDirectory() as folder:
    # what you have: states (steps, paths, dim) and observations (steps, paths, ...)
    states = ij.data.GoalReaching().trajectory(400, 201, ij.generator(0, "data")).float()
    np.save(Path(folder, "states.npy"), states.numpy())
    np.save(Path(folder, "observations.npy"), ij.data.Lift(dim=2, out_dim=8)(0.5 * states).numpy())

    recorded = ij.data.Recorded(
        np.load(Path(folder, "states.npy"), mmap_mode="r"),
        np.load(Path(folder, "observations.npy"), mmap_mode="r"),
        stride=8,
    )
    train, held_out = recorded.split(held_out=0.2)
    chosen = ij.data.isotropize(train, strength=0.5, method="moments")
    print(chosen.effect)

    certificates = {}
    for name, pairs in {"as they are": train, "isotropised": chosen.recorded}.items():
        encoder = ij.encoders.MLP(in_dim=8, out_dim=2, layers=4)
        ij.fit(
            encoder,
            pairs.world(),
            ij.objectives.LeJEPA(),
            steps=500,
            batch=512,
            learning_rate=1e-2,
            eval_samples=2000,
        )
        certificates[name] = ij.certify(encoder, held_out.world(), samples=20_000)
        print(f"\nTrained on the pairs {name}, certified on paths held out:\n{certificates[name]}")
