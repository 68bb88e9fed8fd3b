"""The files of the Debian package agree with the rest."""

import os
import re
import subprocess
from pathlib import Path

from placement.cmd.completion import MODULES
from placement.version import DISTRIBUTION, VERSION
from tests.support.processes import ENDS_S, require_program
from tests.support.setup_file import ROOT, SETUP

OF_DEBIAN = ("placement-api", "placement-common", "python3-placement")


def test_the_distribution_has_one_name() -> None:
    assert SETUP["metadata"]["name"] == DISTRIBUTION
    assert f'name = "{DISTRIBUTION}"' in (ROOT / "tools" / "package").read_text()


def fields_of_package() -> str:
    """Return what debian/control says of the binary package and of its relations to others."""
    text = (ROOT / "debian/control").read_text().partition("\n\n")[2]
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    kept, keeps = [], False
    for line in lines:
        if not line.startswith(" "):
            keeps = line.partition(":")[0] in ("Package", "Provides", "Conflicts", "Replaces")
        kept += [line] if keeps else []
    # Lines that go on, and a comma after the last name, are allowed in a source only.
    return re.sub(r",$", "", "\n".join(kept).replace("\n ", " "), flags=re.M)


def test_the_package_takes_the_place_of_debians(tmp_path: Path) -> None:
    """dpkg removes what the package replaces, and what depends on that stays."""
    require_program("dpkg-deb")
    of_test = "Architecture: all\nMaintainer: T <t@example.org>\nDescription: none"
    written = {
        DISTRIBUTION: f"{fields_of_package()}\nVersion: {VERSION}",
        "dependant": "Package: dependant\nVersion: 1\nDepends: "
        + ", ".join(f"{each} (>= 8.0.0)" for each in OF_DEBIAN),
        **{each: f"Package: {each}\nVersion: 13.0.0" for each in OF_DEBIAN},
    }
    made = {}
    for name, fields in written.items():
        (tmp_path / name / "DEBIAN").mkdir(parents=True)
        (tmp_path / name / "DEBIAN" / "control").write_text(f"{fields}\n{of_test}\n")
        made[name] = tmp_path / f"{name}.deb"
        subprocess.run(["dpkg-deb", "-b", tmp_path / name, made[name]], check=True, timeout=ENDS_S)
    for folder in ("root/var/lib/dpkg/info", "root/var/lib/dpkg/updates"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "root/var/lib/dpkg/status").touch()

    # dpkg wants ldconfig, which is not in the PATH of every user.
    environ = {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}

    def install(*names: str) -> None:
        install = ["dpkg", "--root", tmp_path / "root", "--force-not-root", "--install"]
        subprocess.run([*install, *map(made.get, names)], check=True, timeout=ENDS_S, env=environ)

    install(*OF_DEBIAN, "dependant")
    install(DISTRIBUTION)

    status = (tmp_path / "root/var/lib/dpkg/status").read_text()
    stanzas = [each for each in status.split("\n\n") if "Status: install ok installed" in each]
    assert {each.splitlines()[0].split()[1] for each in stanzas} == {"dependant", DISTRIBUTION}


def test_the_version_of_the_package_is_the_services() -> None:
    first = (ROOT / "debian/changelog").read_text().splitlines()[0]
    assert first.startswith(f"placement-service ({VERSION})")


def test_the_package_has_every_command() -> None:
    rules = (ROOT / "debian/rules").read_text().replace("\\\n", " ")
    (listed,) = [line for line in rules.splitlines() if line.startswith("COMMANDS = ")]
    assert set(listed.split()[2:]) == set(MODULES)
