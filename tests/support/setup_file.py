"""What ``setup.cfg`` says."""

import configparser
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
SETUP = configparser.ConfigParser()
SETUP.read(ROOT / "setup.cfg")
EXTRAS = SETUP["options.extras_require"]


def required(*extras: str) -> list[Requirement]:
    """Return what the service requires always, and for these extras."""
    texts = [SETUP["options"]["install_requires"], *(EXTRAS[extra] for extra in extras)]
    return [Requirement(line) for text in texts for line in text.strip().splitlines() if line[0] != "#"]
