"""Folders and names say whose tests they are (docs/maintainers/tests.rst).

The tests of ``placement/X/y.py`` are ``tests/X/test_y.py`` and ``tests/X/test_y_*.py``. A package inside a
layer, and an extension, is one thing: a test that is named after it is of each of its modules.
"""

import re
from functools import cache
from pathlib import Path

from tests.support.affected import ROOT, TOPS, Tree

SERVICE, TESTS = ROOT / "placement", ROOT / "tests"

OF_NO_LAYER = {
    *("benchmarks", "docs", "examples", "explorer", "gabbits", "operations", "proofs", "security"),
    "support",
}
"""Folders of tests of the service as a whole, and of what is no part of it."""

ELSEWHERE = {
    "client/migrate.py": "tests/client/test_tracker.py",
    "cmd/status.py": "tests/cmd/test_manage.py",
    "db/place_rows.py": "tests/cmd/test_audit.py",
    "handlers/root.py": "tests/gabbits/core-root.yaml",
    "objects/scrubber.py": "tests/db/test_scrub.py",
    "policies/enforcement.py": "tests/conf/test_options_samples.py",
    "profiling.py": "tests/web/test_observation.py",
    "web/unread_body.py": "tests/operations/deploy/test_unread_bodies.py",
}
"""Modules of which no test has the name, nor that of a module that imports them."""

TREE = Tree()


def has_code(path: Path) -> bool:
    """Say whether this is more than an empty package or a revision of the schema."""
    text = path.read_text()
    return path.parent.name != "versions" and (
        path.name != "__init__.py" or re.search("^(def|class) ", text, re.M) is not None
    )


def modules() -> list[Path]:
    """Return the modules of the service, without what other projects' tests import."""
    found = (path.relative_to(SERVICE) for path in SERVICE.rglob("*.py") if has_code(path))
    return sorted(path for path in found if path.parts[0] != "tests")


@cache
def is_named(module: Path) -> bool:
    """Say whether a test has the name of the module, of its package in a layer, or of its extension."""
    layer, *below = module.with_suffix("").parts
    if layer == "extensions" and len(below) > 1:
        return any(TREE.named(f"tests/{folder}{below[0]}/") for folder in ("extensions/", ""))
    word = below[0] if below else layer
    suites = f"{word.replace('_', '-')}-*.yaml"
    if layer in ("handlers", "objects") and any((TESTS / "gabbits").glob(suites)):
        return True
    folder = f"tests/{layer}" if below else "tests"
    return any(TREE.named(f"{folder}/test_{word}{end}") for end in (".py", "_"))


def is_held(module: Path, seen: tuple[Path, ...] = ()) -> bool:
    """Say whether a test has the name of the module or of one that imports it, through others of its layer.

    What puts the packages together imports everything, and its tests hold nothing else.
    """
    if is_named(module):
        return True
    for user in users_of(module) - {*seen, module}:
        if user.parts[0] == module.parts[0] and user.parent != Path():
            if is_held(user, (*seen, module)):
                return True
        elif user.with_suffix("").parts[0] not in {*TOPS} - {"cmd"} and is_named(user):
            return True
    return False


def users_of(module: Path) -> set[Path]:
    """Return the modules of the service that import a module."""
    found = TREE.importers_of(f"placement/{module}")
    return {Path(path).relative_to("placement") for path in found if path.startswith("placement/")}


def test_each_folder_of_tests_is_of_a_layer_or_of_the_service_as_a_whole() -> None:
    layers = {path.parent.name for path in SERVICE.glob("*/__init__.py")}
    folders = {Path(test).parts[1] for test in TREE.tests if len(Path(test).parts) > 2}
    assert folders - layers == OF_NO_LAYER
    extensions = {path.parent.name for path in SERVICE.glob("extensions/*/__init__.py")}
    assert {Path(test).parts[2] for test in TREE.named("tests/extensions/")} <= extensions


def test_each_test_of_a_layer_has_the_name_of_a_module() -> None:
    """Or of a package in it, or of the layer itself, whose tests are of it as a whole."""
    strangers = []
    for test in sorted(TREE.tests):
        folder = Path(test).parent.relative_to("tests")
        if {*folder.parts[:1]} & OF_NO_LAYER:
            continue
        inside = {path.stem for path in (SERVICE / folder).glob("*")} | {folder.name}
        if not any(re.fullmatch(rf"test_{word}(_\w+)?", Path(test).stem) for word in inside if word):
            strangers.append(test)
    assert strangers == []


def test_each_module_has_tests_where_its_name_says() -> None:
    assert {str(each) for each in modules() if not is_held(each)} == {*ELSEWHERE}
    assert [test for test in ELSEWHERE.values() if not (ROOT / test).exists()] == []
