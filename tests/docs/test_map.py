"""The page about which tests hold what names every module and every test."""

import re
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "maintainers" / "test-map.rst"
ROW = re.compile(r"^   \* - .+\n     - (?P<modules>(?:.|\n      )+)\n     - (?P<tests>(?:.|\n      )+)", re.M)


def named(kind: str) -> set[str]:
    """Return the names in one column of all tables."""
    rows = list(ROW.finditer(PAGE.read_text()))
    assert len(rows) > 50
    return {name for row in rows for name in re.findall("``(.+?)``", row[kind])}


def left_out(paths: Iterable[str], names: set[str]) -> list[str]:
    """Return the paths that no name has: itself, as a pattern, or as a folder of it."""
    folders = tuple(name for name in names if name.endswith("/"))
    patterns = [name for name in names if "*" in name]
    return [
        path
        for path in paths
        if path not in names
        and not path.startswith(folders)
        and not any(Path(path).match(pattern) for pattern in patterns)
    ]


def modules() -> list[str]:
    """Return the modules of the service, and the packages that have code of their own."""
    found = [path.relative_to(ROOT / "placement") for path in (ROOT / "placement").rglob("*.py")]
    return [
        str(path.parent if path.name == "__init__.py" else path.with_suffix(""))
        for path in found
        if path.name != "__init__.py"
        or re.search("^(def|class) ", (ROOT / "placement" / path).read_text(), re.M)
    ]


def modules_of_tests() -> list[str]:
    """Return the modules of tests, and the suites in YAML."""
    found = [*(ROOT / "tests").rglob("test_*.py"), *(ROOT / "tests" / "gabbits").glob("*.yaml")]
    return [str(path.relative_to(ROOT)) for path in found if "node_modules" not in path.parts]


def test_every_module_has_tests_and_every_test_is_found() -> None:
    assert left_out(modules(), named("modules")) == []
    assert left_out(modules_of_tests(), named("tests")) == []


def test_every_name_is_there() -> None:
    there, folder = modules(), ROOT / "placement"
    missing = [
        name
        for name in named("modules")
        if name not in there and not (name.endswith("/") and (folder / name).is_dir())
    ]
    assert missing == []
    assert [name for name in named("tests") if not list(ROOT.glob(name))] == []
