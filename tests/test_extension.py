"""An extension is a package and a word in a tuple, and the service is whole without any."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "tests" / "extensions" / "writes_seen"
TUPLE = re.compile(r"^EXTENSIONS = \(", re.M)

COPY_ALONE = """
import sys

sys.meta_path[:] = [each for each in sys.meta_path if "Editable" not in repr(each)]
"""
"""An editable installation would find in this repository what the copy does not have."""

CORE_ALONE = COPY_ALONE + """
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
assert not [name for name in sys.modules if name.startswith("placement.extensions.")]
assert not [rule.name for rule in policies.list_rules() if "insight" in rule.name]
assert telemetry.list_figures()
"""

TESTS_OF_COPY = COPY_ALONE + """
import pytest

sys.exit(pytest.main(sys.argv[1:]))
"""

BESIDE_CORE = (
    "placement.extensions",
    "docs._tools",
    "EXPLORER",
    "parents[",
    "subprocess",
    "tests.support.batches",
    "tests.extensions",
    "insight__",
)
"""Words of tests that are about an extension, or about the repository, of which the copy is a part."""

QUICK_LAYERS = ("handlers", "policies", "web")
"""Layers of the core whose tests take seconds: they see the service as a client does."""

COMMANDS_OF_CORE = COPY_ALONE + """
from placement.cmd import manage

def call(*words):
    sys.argv[1:] = ["--config-file", "placement.conf", *words]
    try:
        return manage.main()
    except SystemExit as ended:
        return ended.code

assert not call("db", "sync")
assert not call("config", "check")
assert not call("db", "check")
assert call("capacity", "record") == 2
"""

COMMAND_THAT_FAILS = COPY_ALONE + """
import contextlib
import io

from placement.cmd import entry_points

said, program, *sys.argv[1:] = sys.argv[1:]
sys.argv[0] = f"placement-{program}"
with contextlib.redirect_stderr(io.StringIO()) as printed:
    assert getattr(entry_points, program)() == 1
(line,) = [each for each in printed.getvalue().splitlines() if said in each]
assert line.startswith(f"placement-{program}: "), line
assert "Traceback" not in printed.getvalue(), printed.getvalue()
"""

CONFIGURED = """
[placement_database]
connection = sqlite:///placement.db
[api]
auth_strategy = noauth2
"""

WITHOUT_QUESTIONS = """
from tests.support.service import running

try:
    with running(insight__enabled=True):
        raise AssertionError("metrics began without questions")
except LookupError as error:
    assert "needs questions" in str(error), error
"""

WITH_ITS_TABLE = """
from contextlib import contextmanager

from placement.extensions.writes_seen.invariants import PLACES
from sqlalchemy import create_engine
from tests.support import databases

make = databases.scratch_database

@contextmanager
def make_with_places(*given, **options):
    with make(*given, **options) as url:
        engine = create_engine(url)
        PLACES.create(engine)
        engine.dispose()
        yield url

databases.scratch_database = make_with_places
"""
"""A revision of the schema makes the table of a real extension."""

PROOFS_WITH_EXAMPLE = WITH_ITS_TABLE + """
import sys

import pytest
from placement.extensions.writes_seen.watchers import COUNTER

code = pytest.main(sys.argv[1:])
assert COUNTER.finished > 100, COUNTER.finished
sys.exit(code)
"""

PROOFS = ("tests/proofs/promise/test_errors.py", "tests/proofs/promise/test_wire.py")

WITH_EXAMPLE = WITH_ITS_TABLE + """
from placement import conf, policies
from placement.db import invariants, scrub
from tests.support.service import running

CONSUMER = "11111111-1111-4111-8111-111111111111"

assert "count_writes" in [option.name for option in dict(conf.list_opts())["insight"]]
assert policies.list_rules()[-1].name == "placement:writes:count"
with running(insight__enabled=True, insight__count_writes=True) as service:
    assert service.send("GET", "/-/writes-seen").json == {"finished": 0}
    assert service.send("POST", "/resource_providers", {"name": "host"}).status == 200
    assert service.send("GET", "/-/writes-seen").json == {"finished": 1}
    anyone = service.request("GET", "/-/writes-seen", x_auth_token="ann:mine")
    assert anyone.status_int == 403

    host = service.send("GET", "/resource_providers").json["resource_providers"][0]["uuid"]
    body = {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 4}}}
    assert service.send("PUT", f"/resource_providers/{host}/inventories", body).status == 200
    claim = {
        "allocations": {host: {"resources": {"VCPU": 1}}},
        "project_id": "p", "user_id": "u", "consumer_generation": None, "consumer_type": "INSTANCE",
    }
    assert service.send("PUT", f"/allocations/{CONSUMER}", claim).status == 204
    assert not invariants.violations(service.db)

    def change_by_hand(tx):
        tx.connection.execute(PLACES.update().values(number=7))

    service.db.write(change_by_hand)
    (wrong,) = invariants.violations(service.db)
    assert wrong.invariant.name == "numbers of places equal the ledger", wrong
    assert wrong.examples == (f"consumer_uuid {CONSUMER}, number 7, ledger 1",)
    assert invariants.repair(service.db, wrong.invariant) == 1
    assert not invariants.violations(service.db)
    service.db.write(change_by_hand)
    healed, left = scrub.scrub_all(service.db)
    assert (dict(healed), left) == ({"rows": 1}, [])
    assert not invariants.violations(service.db)
with running(insight__count_writes=True) as service:
    assert service.send("GET", "/-/writes-seen").status == 404
"""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The folder of a copy of the package."""
    without = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "placement", tmp_path / "placement", ignore=without)
    return tmp_path


def find_core_tests(copy: Path) -> list[str]:
    """Return the tests of the core's layers that are about the core alone."""
    found = [path for layer in QUICK_LAYERS for path in (copy / "tests" / layer).glob("test_*.py")]
    return sorted(
        str(path) for path in found if not any(word in path.read_text() for word in BESIDE_CORE)
    )


def attach_example(copy: Path) -> None:
    """Add the example and its word."""
    extensions = copy / "placement" / "extensions"
    shutil.copytree(EXAMPLE, extensions / "writes_seen")
    names = extensions / "__init__.py"
    text, attached = TUPLE.subn('EXTENSIONS = ("writes_seen", ', names.read_text())
    assert attached == 1
    names.write_text(text)


def run(copy: Path, *command: str, **more: str) -> None:
    """Run Python on the copy, with the tests of this repository, on SQLite alone.

    :param more: variables of the environment.
    """
    path = os.pathsep.join([str(copy), str(ROOT)])
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PLACEMENT_")}
    environment |= {"PYTHONPATH": path, "PYTHONSAFEPATH": "1", **more}
    done = subprocess.run(
        [sys.executable, *command], env=environment, cwd=copy, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def test_the_core_is_whole_without_extensions(copy: Path) -> None:
    """It serves, and passes its own suites: those whose requests are not below ``/-/``."""
    shutil.rmtree(copy / "placement" / "extensions")
    shutil.copytree(ROOT / "tests", copy / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    for suite in (copy / "tests" / "gabbits").glob("*.yaml"):
        if "/-/" in suite.read_text():
            suite.unlink()
    tests = [*find_core_tests(copy), "tests/gabbits/test_gabbi.py"]

    (copy / "placement.conf").write_text(CONFIGURED)

    run(copy, "-c", CORE_ALONE)
    run(copy, "-c", COMMANDS_OF_CORE)
    # A package manager leaves such a folder.
    (copy / "placement" / "extensions" / "__pycache__").mkdir(parents=True)
    run(copy, "-c", CORE_ALONE)
    run(copy, "-c", TESTS_OF_COPY, "-q", "-p", "no:cacheprovider", "-n", "0", *tests)


def test_what_an_extension_needs_is_named(copy: Path) -> None:
    names = copy / "placement" / "extensions" / "__init__.py"
    text = names.read_text()
    assert '"questions", ' in text
    names.write_text(text.replace('"questions", ', ""))

    run(copy, "-c", WITHOUT_QUESTIONS)


@pytest.mark.parametrize(
    ("broken", "appended", "said"),
    [
        ("claims", None, "the extension claims is not installed, and EXTENSIONS in "),
        ("feed", "raise ImportError('one\\ntwo')", "the extension feed cannot be loaded: one two"),
        ("plans", "import nothing_here", "extension plans cannot be loaded: No module named 'nothing_here'"),
    ],
)
def test_an_extension_that_cannot_be_loaded_is_one_line(
    copy: Path, broken: str, appended: str | None, said: str
) -> None:
    """Its options are read by every command, its routes by a start and by config check."""
    (copy / "placement.conf").write_text(CONFIGURED + "[insight]\nenabled = true\n")
    extension = copy / "placement" / "extensions" / broken
    if appended is None:
        shutil.rmtree(extension)
    else:
        with (extension / "extension.py").open("a") as file:
            file.write(f"\n{appended}\n")

    check = ("manage", "--config-file", "placement.conf", "config", "check")
    for program in (check, ("api", "--port", "0")):
        run(copy, "-c", COMMAND_THAT_FAILS, said, *program, OS_PLACEMENT_CONFIG_DIR=str(copy))


def test_an_extension_attaches_by_a_word_in_the_tuple(copy: Path) -> None:
    attach_example(copy)

    run(copy, "-c", WITH_EXAMPLE)


def test_proofs_try_an_extension_that_is_attached(copy: Path) -> None:
    """What it does at each write is in the messages that are compared, and among the injected errors."""
    attach_example(copy)
    proofs = [str(ROOT / path) for path in PROOFS]
    options = ["-q", "-p", "no:cacheprovider", "-n", "0", "-k", "sqlite", "--drawn", "40"]

    run(copy, "-c", PROOFS_WITH_EXAMPLE, *options, *proofs, OS_INSIGHT__COUNT_WRITES="true")
