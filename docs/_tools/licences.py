"""Write the page of licences: of every package that the service brings, from their own metadata.

    .venv/bin/python -m docs._tools.licences            # writes docs/reference/licences.rst

The packages are those of ``requirements.lock`` and of ``etc/uwsgi/requirements.lock``, and what the extras of
``setup.cfg`` for operators name beside them.
"""

import configparser
import re
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "licences.rst"
LOCKS = (ROOT / "requirements.lock", ROOT / "etc" / "uwsgi" / "requirements.lock")
FOR_DEVELOPERS = ("test", "benchmarks", "docs")
"""Extras that no installation of the service has."""

SPDX = {
    "Apache 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "Apache-2.0 or BSD": "Apache-2.0 OR BSD-3-Clause",
    "LGPL with exceptions": "LGPL-3.0-or-later WITH exceptions",
    "MIT License": "MIT",
    "Python Software Foundation License": "PSF-2.0",
    "ZPL 2.1": "ZPL-2.1",
}
"""What some packages call a licence that has a name in SPDX's list."""

BY_HAND = {
    "jinja2": "BSD-3-Clause",
    "legacy-cgi": "PSF-2.0",
    "mysqlclient": "GPL-2.0-or-later",
    "netaddr": "BSD-3-Clause",
    "scipy": "BSD-3-Clause",
    "uwsgi": "GPL-2.0-or-later WITH linking exception",
}
"""Of packages that do not say exactly, or that are not installed everywhere: read in the package itself."""

NOTES = {
    "mysqlclient": "only where an operator installs it",
    "psycopg2-binary": "used as a library, unchanged",
    "scipy": "its wheel has OpenBLAS and GCC's libraries in it",
    "uwsgi": "a program of its own; with the Debian package",
}

HEAD = """Licences
========

The service has the Apache License 2.0. The packages that it needs have licences of their own, which SPDX
names so. ``python -m docs._tools.licences`` writes this page from the metadata of the packages.

What an installation from ``requirements.lock`` has: the container, and with uWSGI the Debian package.

"""
EXTRAS = """
What an operator may add by an extra of ``setup.cfg``; the packages that these require in turn are not listed:

"""


def locked() -> dict[str, str]:
    """Return the packages of the locks with their versions, several joined by "or"."""
    found: dict[str, list[str]] = {}
    for lock in LOCKS:
        for name, version in re.findall(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)", lock.read_text(), re.M):
            found.setdefault(canonicalize_name(name), []).append(version)
    return {name: " or ".join(versions) for name, versions in sorted(found.items())}


def optional() -> dict[str, str]:
    """Return the packages that only extras for operators name, with those extras."""
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    found: dict[str, list[str]] = {}
    for extra, text in setup["options.extras_require"].items():
        lines = [line for line in text.strip().splitlines() if not line.startswith("#")]
        for name in {canonicalize_name(Requirement(line).name) for line in lines} - locked().keys():
            if extra not in FOR_DEVELOPERS:
                found.setdefault(name, []).append(extra)
    return {name: ", ".join(extras) for name, extras in sorted(found.items())}


def licence(name: str) -> str | None:
    """Return the licence of a package; None if it is not installed and not known by hand."""
    if name in BY_HAND:
        return BY_HAND[name]
    try:
        said = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return None
    classes = [
        each.rpartition(" :: ")[2]
        for each in said.get_all("Classifier", [])
        if each.startswith("License :: OSI Approved :: ")
    ]
    given = next(
        text
        for text in (said.get("License-Expression"), said.get("License"), *classes)
        if text and text != "UNKNOWN"
    )
    return SPDX.get(given, given)


def page() -> str:
    """Return the page."""
    brought = [("package", "version", "licence", "")]
    brought += [
        (name, version, licence(name) or "unknown", NOTES.get(name, ""))
        for name, version in locked().items()
    ]
    added = [("package", "extra", "licence", "")]
    added += [
        (name, extras, licence(name) or "unknown", NOTES.get(name, ""))
        for name, extras in optional().items()
    ]
    return HEAD + table(brought) + EXTRAS + table(added)


def table(rows: list[tuple[str, ...]]) -> str:
    """Return a table of reStructuredText; the first row is its head."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rule = "  ".join("=" * max(width, 1) for width in widths)
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join([rule, lines[0] if rows[0][-1] else lines[0] + "  \\", rule, *lines[1:], rule, ""])


if __name__ == "__main__":
    PAGE.write_text(page())
