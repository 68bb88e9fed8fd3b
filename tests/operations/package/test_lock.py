"""``requirements.lock`` holds what ``setup.cfg`` asks for, each with hashes."""

import re

from packaging.utils import canonicalize_name

from tests.support.setup_file import ROOT, required


def test_the_lock_satisfies_the_requirements() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    locked = dict(re.findall(r"^([a-z0-9._-]+)==(\S+)", lock, re.M))

    for requirement in required("postgresql", "mysql", "plans"):
        version = locked[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), (requirement, version, "run tools/lock")
    assert "://" not in lock
    for entry in re.split(r"^(?=[a-z0-9])", lock, flags=re.M)[1:]:
        assert "--hash=sha256:" in entry, entry
