"""An extension is a package and a word in a tuple, and the service is whole without any."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = Path(__file__).parent / "writes_seen"
TUPLE = re.compile(r"^EXTENSIONS = \(", re.M)

CORE_ALONE = """
import sys
# An editable installation finds in this repository what the copy does not have.
sys.meta_path[:] = [each for each in sys.meta_path if "Editable" not in repr(each)]
from placement import policies, telemetry
from tests.support.service import running

with running(insight__enabled=True) as service:
    made = service.send("POST", "/resource_providers", {"name": "host"})
    assert made.status == 200, made.text
    host = f"/resource_providers/{made.json['uuid']}"
    body = {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 4}}}
    assert service.send("PUT", f"{host}/inventories", body).status == 200
    found = service.send("GET", "/allocation_candidates?resources=VCPU:4")
    assert len(found.json["allocation_requests"]) == 1
    assert service.send("GET", "/-/trees").status == 404
assert not [name for name in sys.modules if name.startswith("placement.extensions")]
assert not [rule.name for rule in policies.list_rules() if "insight" in rule.name]
assert telemetry.list_figures()
"""

WITH_EXAMPLE = """
from placement import conf, policies
from tests.support.service import running

assert "count_writes" in [option.name for option in dict(conf.list_opts())["insight"]]
assert policies.list_rules()[-1].name == "placement:writes:count"
with running(insight__enabled=True, insight__count_writes=True) as service:
    assert service.send("GET", "/-/writes-seen").json == {"finished": 0}
    assert service.send("POST", "/resource_providers", {"name": "host"}).status == 200
    assert service.send("GET", "/-/writes-seen").json == {"finished": 1}
    anyone = service.request("GET", "/-/writes-seen", x_auth_token="ann:mine")
    assert anyone.status_int == 403
with running(insight__count_writes=True) as service:
    assert service.send("GET", "/-/writes-seen").status == 404
"""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The folder of a copy of the package."""
    without = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "placement", tmp_path / "placement", ignore=without)
    return tmp_path


def run(copy: Path, *command: str) -> None:
    """Run Python on the copy, with the tests of this repository."""
    path = os.pathsep.join([str(copy), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"}
    done = subprocess.run(
        [sys.executable, *command], env=environment, cwd=copy, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def test_the_core_is_whole_without_extensions(copy: Path) -> None:
    shutil.rmtree(copy / "placement" / "extensions")

    run(copy, "-c", CORE_ALONE)


def test_an_extension_attaches_by_a_word_in_the_tuple(copy: Path) -> None:
    extensions = copy / "placement" / "extensions"
    shutil.copytree(EXAMPLE, extensions / "writes_seen")
    names = extensions / "__init__.py"
    text, attached = TUPLE.subn('EXTENSIONS = ("writes_seen", ', names.read_text())
    assert attached == 1
    names.write_text(text)

    run(copy, "-c", WITH_EXAMPLE)
