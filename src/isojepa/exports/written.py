"""What a writer of a format leaves."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Written:
    """One file, read back and compared.

    Attributes:
        file: its name in the folder.
        difference: the largest, between what the file and the model give for made-up observations.
        reader: what read it back; empty if nothing could.
        library: that opens it, as hubs name it.
        loading: Python that loads it and calls it.
        notes: what to know besides.
        normalises: whether it takes pixels in [0, 1] and normalises them itself.
    """

    file: str
    difference: float
    reader: str
    library: str
    loading: str
    notes: tuple[str, ...] = ()
    normalises: bool = False
