"""Contract 01 sections 3.1 and 3.2: what a path names."""

import pytest

from placement import policies
from placement.web import routes
from placement.web.url_map import UrlMap

URL_MAP = UrlMap(routes.ROUTES)


@pytest.mark.parametrize(
    "path",
    [
        "//",
        "//resource_providers",
        "/resource_providers//inventories",
        "/resource_providers/",
        "/resource_providers/a/inventories/",
        "/resource_providers/a/inventories/VCPU/x",
        "/Resource_providers",
        "resource_providers",
        "/.",
        "/..",
        "/./resource_providers/..",
        "/traits/a/b",
        "/{uuid}",
    ],
)
def test_path_names_nothing(path: str) -> None:
    assert URL_MAP.match(path) is None


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
def test_path_names(path: str, variables: dict[str, str]) -> None:
    found = URL_MAP.match(path)
    assert found is not None
    assert found.variables == variables


def test_everything_but_the_root_is_guarded_by_a_declared_rule() -> None:
    declared = {rule.name for rule in policies.list_rules()}
    used = set()
    for path, methods in routes.ROUTES.items():
        for action in [action for actions in methods.values() for action in actions]:
            if path in ("", "/"):
                assert action.rule is None
            else:
                assert action.rule is not None
                used.add(f"placement:{action.rule}")
    assert used <= declared
    assert {name for name in declared if name.startswith("placement:")} == used
    assert len(used) == 33


def test_documented_operations_are_those_of_the_url_map() -> None:
    documented = {
        (operation["method"], operation["path"], rule.name)
        for rule in policies.api.RULES
        for operation in rule.operations
    }
    mapped = {
        (method, path, f"placement:{action.rule}")
        for path, methods in routes.ROUTES.items()
        for method, actions in methods.items()
        for action in actions
        if action.rule
    }
    assert documented == mapped
