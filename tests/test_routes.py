"""Specification 01 sections 3.1 and 3.2: what a path names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docs._tools.url_page import CLAIMS, INSIGHT, ROUTES
from placement import policies, routes
from placement.web.authorization import Authorizer
from placement.web.dispatch import Dispatcher
from placement.web.error_responses import NotFoundHere
from tests.support.service import configure


@pytest.fixture(scope="module")
def dispatcher() -> Dispatcher:
    return Dispatcher(Authorizer(configure()), routes.ROUTES)


@pytest.mark.parametrize(
    "path",
    [
        *("//", "//resource_providers", "/resource_providers//inventories", "/resource_providers/"),
        *("/resource_providers/a/inventories/", "/resource_providers/a/inventories/VCPU/x"),
        *("/Resource_providers", "resource_providers", "/./resource_providers/..", "/traits/a/b"),
        *("/.", "/..", "/?/", "/{uuid}"),
    ],
)
def test_path_names_nothing(dispatcher: Dispatcher, path: str) -> None:
    with pytest.raises(NotFoundHere):
        dispatcher.match({"PATH_INFO": path})


@pytest.mark.parametrize(
    ("path", "variables"),
    [
        ("", {}),
        ("/", {}),
        ("/resource_providers/..", {"uuid": ".."}),
        ("/resource_providers/a/inventories/VCPU", {"uuid": "a", "resource_class": "VCPU"}),
        ("/traits/inventories", {"name": "inventories"}),
        ("/allocations/{x}", {"consumer_uuid": "{x}"}),
        ("/traits/CUSTOM_A\n", {"name": "CUSTOM_A?"}),
        ("/traits/\0\xff\xc3\xbc", {"name": "????"}),
    ],
)
def test_path_names(dispatcher: Dispatcher, path: str, variables: dict[str, str]) -> None:
    _, found = dispatcher.match({"PATH_INFO": path})
    assert found == variables


SEGMENTS = sorted({segment for template in routes.ROUTES for segment in template.split("/")})
ODD = [
    "..", "a.json", "CUSTOM_A", "Traits", ":a", "*", "%2F", "a\\", "\n", "\r\n", "\0", "\xff", "é",
]  # fmt: skip
PATHS = st.lists(st.sampled_from(SEGMENTS + ODD), max_size=6).map("/".join) | st.text()


@given(PATHS)
def test_path_is_compared_segment_by_segment(dispatcher: Dispatcher, path: str) -> None:
    try:
        found = dispatcher.match({"PATH_INFO": path})[0]
    except NotFoundHere:
        found = None
    fitting = [template for template in routes.ROUTES if _fits(template, path)]
    assert fitting == ([] if found is None else [found])


def _fits(template: str, path: str) -> bool:
    pairs = list(zip(template.split("/"), path.split("/"), strict=False))
    return template.count("/") == path.count("/") and all(
        bool(given) if wanted.startswith("{") else wanted == given for wanted, given in pairs
    )


def test_everything_but_the_root_is_guarded_by_a_declared_rule() -> None:
    declared = {rule.name for rule in policies.list_rules()}
    used = set()
    for path, methods in (ROUTES | INSIGHT | CLAIMS).items():
        for action in [action for actions in methods.values() for action in actions]:
            if path in ("", "/"):
                assert action.rule is None
            else:
                assert action.rule is not None
                used.add(f"placement:{action.rule}")
    assert used <= declared
    assert {name for name in declared if name.startswith("placement:")} == used
    assert len(used) == 46


def test_documented_operations_are_those_of_the_url_map() -> None:
    documented = {
        (operation["method"], operation["path"], rule.name)
        for rule in policies.list_rules()
        for operation in getattr(rule, "operations", ())
    }
    mapped = {
        (method, path.replace(":.+}", "}"), f"placement:{action.rule}")
        for path, methods in (ROUTES | INSIGHT | CLAIMS).items()
        for method, actions in methods.items()
        for action in actions
        if action.rule
    }
    # A plan that is held claims too: its handler asks for the rule itself.
    assert documented == mapped | {("POST", "/-/plans", "placement:claims:create")}
