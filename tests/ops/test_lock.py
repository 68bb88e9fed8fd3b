"""``requirements.lock`` holds what ``setup.cfg`` asks for, each with hashes."""

import configparser
import re
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]


def test_the_lock_satisfies_the_requirements() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    extras = setup["options.extras_require"]
    brought = [extras[name] for name in ("fast", "postgresql", "mysql")]
    texts = (setup["options"]["install_requires"], *brought)
    wanted = [
        Requirement(line) for text in texts for line in text.strip().splitlines() if line[0] != "#"
    ]
    lock = (ROOT / "requirements.lock").read_text()
    locked = dict(re.findall(r"^([a-z0-9._-]+)==(\S+)", lock, re.M))

    for requirement in wanted:
        version = locked[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), (requirement, version, "run tools/lock")
    assert "://" not in lock
    for entry in re.split(r"^(?=[a-z0-9])", lock, flags=re.M)[1:]:
        assert "--hash=sha256:" in entry, entry
