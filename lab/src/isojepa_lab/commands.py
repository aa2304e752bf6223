"""The lab's commands, by name: what `isojepa --help` lists without importing them."""

from isojepa.cli.main import Command

COMMANDS = {
    "theory": Command(
        "isojepa_lab.cli.theory",
        "Theory",
        "Check every lemma behind the certificates, by computer algebra or by numbers to stated precision.",
    ),
    "sweep": Command(
        "isojepa_lab.cli.sweep",
        "Sweep",
        "Make every run of a study: train and score what is not done yet, one record each.",
    ),
    "study": Command(
        "isojepa_lab.cli.study",
        "Study",
        "Claims and the runs that test them: list them, look at one, write its report.",
    ),
}
