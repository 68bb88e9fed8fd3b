"""What the documentation says of versions, licences and revisions is so."""

import platform
import re
import sqlite3
import subprocess
from importlib import metadata

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from docs._tools import licences
from placement.db import schema
from placement.version import VERSION
from tests.operations.package.test_constraints import PYTHONS, allowed, normalised
from tests.support.databases import KINDS
from tests.support.effort import CI
from tests.support.setup_file import EXTRAS, ROOT, SETUP, required

DOCS = ROOT / "docs"

PROGRAMS = {
    "PostgreSQL": "postgresql",
    "MariaDB": "mariadb-server",
    "Galera": "galera-4",
    "Apache": "apache2",
    "mod_wsgi": "libapache2-mod-wsgi-py3",
    "nginx": "nginx-light",
    "HAProxy": "haproxy",
}
"""The packages of Debian by the name of the table."""


def tables(page: str) -> list[list[list[str]]]:
    """Return the cells of each simple table of a page, without the head."""
    found = []
    for head in re.finditer(r"^(=+(?: +=+)+)\n.+\n\1\n((?:.*\n)*?)\1\n", page, re.M):
        # A column begins where its rule does, and reaches to the next one.
        begins = [each.start() for each in re.finditer("=+", head[1])]
        ends = [*begins[1:], None]
        lines = head[2].splitlines()
        found.append(
            [[line[a:b].strip() for a, b in zip(begins, ends, strict=True)] for line in lines]
        )
    return found


[SUPPORTED] = tables((DOCS / "reference/supported.rst").read_text())


def floors() -> dict[str, str]:
    """Return the lowest version of each package that ``setup.cfg`` names."""
    found = {}
    for each in required(*EXTRAS):
        lowest = [bound.version for bound in each.specifier if bound.operator == ">="]
        found[canonicalize_name(each.name)] = lowest[0] if lowest else ""
    return found


def test_the_pythons_are_those_that_are_tried() -> None:
    rows = [row for row in SUPPORTED if row[0] == "Python"]
    said = re.findall(r"Python :: (3\.\d+)$", SETUP["metadata"]["classifiers"], re.M)
    assert [row[2] for row in rows] == said
    assert {row[1] for row in rows} == {SETUP["options"]["python_requires"].removeprefix(">=")}
    for release, python in PYTHONS.items():
        [by] = [row[3] for row in rows if row[2] == python]
        # The suites run under the lowest one with the oldest release too.
        assert f"OpenStack {release}" in by or python == rows[0][2]


def test_the_releases_are_those_of_the_constraints() -> None:
    rows = [row for row in SUPPORTED if row[0] == "OpenStack"]
    assert [row[2] for row in rows] == list(PYTHONS)
    assert {row[1] for row in rows} == {min(PYTHONS)}


def test_the_packages_are_those_that_pip_admits() -> None:
    """From the floor on; and that of the lock, where it is locked."""
    named = {canonicalize_name(row[0]): row for row in SUPPORTED}
    locked, lowest = licences.locked(), floors()
    rows = {name: row for name, row in named.items() if name in lowest}
    assert {"gunicorn", "mysqlclient", "psycopg2-binary", "pymysql", "uwsgi", "waitress"} == set(
        rows
    )
    for name, (_, lowest_said, tested, _) in rows.items():
        assert lowest_said == lowest[name]
        assert Version(tested) >= Version(lowest_said).__class__(
            ".".join(lowest_said.split(".")[:2])
        )
        if name in locked:
            assert f"{locked[name]}.".startswith(f"{tested}.")


def test_every_database_and_its_tests_are_there() -> None:
    names = {"sqlite": "SQLite", "postgresql": "PostgreSQL", "mysql": "MariaDB"}
    assert {names[kind] for kind in KINDS} <= {row[0] for row in SUPPORTED}
    for row in SUPPORTED:
        for path in re.findall(r"``(tests/[\w./]+)``", row[3]):
            assert (ROOT / path).exists()
        assert "every test" in row[3] or "tests/" in row[3]
    assert "debian:bookworm-slim" in (ROOT / "Containerfile").read_text()
    installed = (ROOT / ".ci/install").read_text()
    assert [name for name in PROGRAMS.values() if name not in installed] == []


@pytest.mark.skipif(not CI, reason="another machine has other versions")
def test_what_runs_is_what_the_table_says() -> None:
    said: dict[str, set[str]] = {}
    for what, _, tested, _ in SUPPORTED:
        said.setdefault(what, set()).add(tested)
    assert platform.python_version().rpartition(".")[0] in said["Python"]
    assert f"{sqlite3.sqlite_version}.".startswith(tuple(f"{each}." for each in said["SQLite"]))
    for what, package in PROGRAMS.items():
        query = ["dpkg-query", "-W", "-f", "${Version}", package]
        version = subprocess.run(query, check=True, capture_output=True, text=True).stdout
        assert re.match(rf"(\d+:)?{re.escape(min(said[what]))}\b", version), (what, version)


def test_every_licence_is_named() -> None:
    """``python -m docs._tools.licences`` writes the page anew."""
    brought, added = tables(licences.PAGE.read_text())
    assert {name: version for name, version, *_ in brought} == licences.locked()
    assert {name: extras for name, extras, *_ in added} == licences.optional()
    for name, version, licence, _ in [*brought, *((row[0], "", *row[2:]) for row in added)]:
        assert licence
        assert licence != "unknown"
        try:
            installed = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
        if installed == version:
            assert licence == licences.licence(name)


def test_the_packages_of_debian_are_judged_by_the_floors() -> None:
    """Every requirement has a row, and each version says yes or no rightly."""
    rows = requirements_table()
    wanted = {canonicalize_name(each.name): each for each in required()}
    extras = {name: Requirement(f"{name}>={floors()[name]}") for name in OPTIONAL}
    assert {canonicalize_name(row[0]): row[1] for row in rows} == {
        name: str(each.specifier).removeprefix(">=") for name, each in (wanted | extras).items()
    }
    for name, _, *versions, _, _ in rows:
        specifier = (wanted | extras)[canonicalize_name(name)].specifier
        for version in versions:
            number, _, verdict = version.partition(" ")
            if number == "none":
                assert verdict == ""
            else:
                assert specifier.contains(number) == (verdict == ""), (name, version)
                assert verdict in ("", "(too old)")


def requirements_table() -> list[list[str]]:
    """Return rows: name, lowest version, Debian 12, Debian 13, whether OpenStack pins it, who imports it."""
    return tables((DOCS / "howto/install.rst").read_text())[-1]


@pytest.mark.parametrize("release", PYTHONS)
def test_the_packages_that_openstack_pins_are_marked(release: str) -> None:
    pinned = allowed(release)

    for name, *_, said, _ in requirements_table():
        assert said == ("yes" if normalised(name) in pinned else "none"), name


OPTIONAL = ("mysqlclient", "osprofiler", "psycopg2-binary", "pymysql", "scipy")
"""What Debian might bring of the extras."""


def test_each_release_says_whether_it_brings_a_revision() -> None:
    """The newest one names that of the schema."""
    text = (ROOT / "CHANGES.rst").read_text()
    releases = re.split(r"^(?=\d+\.\d+\.\d+[^\n]*\n-+\n)", text, flags=re.M)[1:]
    assert releases[0].startswith(VERSION)
    for release in releases:
        said = re.search(r"^Revision of the schema: (none|yes)\b", release, re.M)
        assert said is not None, release.splitlines()[0]
    assert f"``{schema.HEAD}``" in releases[0]


def test_security_names_what_is_kept() -> None:
    text = (ROOT / "SECURITY.rst").read_text()
    maintainer = re.search(r"<(.+)>", (ROOT / "debian/control").read_text())
    assert maintainer is not None
    assert maintainer[1] in text
    [rows] = tables(text)
    assert rows[0][0].startswith(VERSION.rpartition(".")[0])
