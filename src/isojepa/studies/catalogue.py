"""The studies that are lists of runs, by name."""

from importlib import import_module

from isojepa.names import choose
from isojepa.studies.study import Study

STUDIES = {
    "mixings": "four mixings of the plane under four objectives",
    "grid": "weight against correlation on the spiral",
    "latent_law": "the latents' law, from heavy tails to flat, in three kinds of world",
    "scaling": "2 to 1,024 latents under six objectives",
    "bound": "Theorem 3 on every run in a Gaussian world",
    "loss_predicts": "which loss tells how much was recovered",
    "anisotropy": "latents of unequal rates, and whether AnInfoNCE repairs them",
    "dimension": "embeddings with fewer and with more dimensions than latents",
    "sample_size": "a finite training set",
}


def find_study(name: str) -> Study:
    """The study of a name.

    Raises:
        ValueError: there is no such study; the message lists those there are.
    """
    choose("study", name, STUDIES)
    study: Study = import_module(f"isojepa.studies.{name}").STUDY
    return study
