"""The lab's commands, by name: what `isojepa --help` lists without importing them."""

from isojepa.cli.main import Command

COMMANDS = {
    "theory": Command(
        "isojepa_lab.cli.theory", "Theory", "lab", "Check every theorem and lemma behind the certificates."
    ),
    "sweep": Command(
        "isojepa_lab.cli.sweep", "Sweep", "lab", "Make every run of a study, in processes or on Slurm."
    ),
    "stress": Command(
        "isojepa_lab.cli.stress",
        "Stress",
        "lab",
        "Fit the map between two encoders from few and mismatched pairs.",
    ),
    "study": Command(
        "isojepa_lab.cli.study", "Study", "lab", "List studies; write their reports and the papers' claims."
    ),
}
