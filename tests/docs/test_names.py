"""One name is one thing, and functions are verbs."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

PLACEMENT = Path(__file__).parents[2] / "placement"
TWICE = {
    # Errors of the service, and the client's exceptions that stand for them (placement/client/exceptions.py).
    "ConsumerConflict",
    "GroupRuleDiffers",
    "HoldExpired",
    "InventoryInUse",
    "NoCandidate",
    "NoPlanFound",
    # The fixture has the name that the tests of other projects know (specification 06 section 10).
    "Database",
}
PARTICIPLE = re.compile(r"_*[a-z]+ed")
OF_LIBRARIES = {"received"}
"""Methods that waitress calls."""


def nodes(kind: type[ast.AST]) -> Iterator[tuple[Path, ast.AST]]:
    for path in sorted(PLACEMENT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, kind):
                yield path.relative_to(PLACEMENT), node


def test_no_two_classes_have_one_name() -> None:
    places = defaultdict(list)
    for path, node in nodes(ast.ClassDef):
        places[node.name].append(str(path))
    twice = {name: where for name, where in places.items() if len(where) > 1}
    assert twice.keys() == TWICE, twice


def test_no_function_is_a_participle() -> None:
    """``counted`` is a value; what counts is ``count``. A property is a value too."""
    found = {
        f"{path}: {node.name}"
        for path, node in nodes(ast.FunctionDef)
        if PARTICIPLE.fullmatch(node.name)
        and node.name not in OF_LIBRARIES
        and not any("property" in ast.unparse(each) for each in node.decorator_list)
    }
    assert not found
