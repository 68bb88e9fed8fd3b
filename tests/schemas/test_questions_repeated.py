"""Parameters under /-/ that have one value: given twice they are refused (specification 07 section 1)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.service import Service, running

UUID, OTHER = (f"7c34be36-000{n}-44d1-8a7c-39b7a1e6f7c5" for n in (1, 2))
FOUR = "resources=VCPU:4"
SINGLE = (
    ("/-/survival", ("avoid=A", "failures=1", "level=tree", "top=5")),
    ("/-/explain?" + FOUR, (f"about={UUID}", "examples=1")),
    ("/-/capacity?" + FOUR, ("by=trees", "top=5")),
    ("/-/capacity?shape=small", ("shape=small", "by=trees", "top=5", "avoid=A")),
    ("/-/capacity/history?shape=small", ("shape=small",)),
    ("/-/trees", ("limit=5", f"after={UUID}", "allocations=true")),
    (f"/-/trees/{UUID}", ("allocations=true",)),
    ("/-/changes", ("since=A", "wait_s=0", "limit=100")),
    (
        "/-/history",
        (
            f"consumer={UUID}",
            f"provider={UUID}",
            "project_id=p",
            "request_id=r",
            "since=2026-11-26T15:04:05Z",
            "until=2026-11-26T15:04:05Z",
            "limit=5",
            "marker=1-1",
        ),
    ),
    ("/-/holds", ("project_id=p", "group=g", "limit=5", f"marker={UUID}")),
)
"""By route: its parameters that have one value, each in a form that is valid when it is given once."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    shapes: Path = tmp_path_factory.mktemp("shapes") / "shapes.json"
    shapes.write_text('{"small": "resources=VCPU:1"}')
    on = {"enabled": True, "history_days": 1.0, "shapes_file": str(shapes)}
    with running(**{f"insight__{name}": value for name, value in on.items()}) as made:
        yield made


@pytest.mark.parametrize(
    ("path", "parameter"),
    [(path, parameter) for path, parameters in SINGLE for parameter in parameters],
)
def test_a_parameter_that_is_given_twice_is_400(
    service: Service, path: str, parameter: str
) -> None:
    """Also if both values are the same, and the answer names it."""
    joint = "&" if "?" in path else "?"
    name = parameter.partition("=")[0]

    answer = service.send("GET", f"{path}{joint}{parameter}&{parameter}")

    assert answer.status == 400
    assert answer.json["errors"][0]["field"] == name
    assert f"'{name}' is given twice" in answer.detail


@pytest.mark.parametrize(
    "query",
    [
        f"/-/explain?{FOUR}&or=resources%3DVCPU:1&or=resources%3DVCPU:2",
        f"/-/trees?uuid={UUID}&uuid={OTHER}",
        f"/-/explain?{FOUR}&limit=1&limit=2",
    ],
)
def test_what_may_be_repeated_is_as_it_was(service: Service, query: str) -> None:
    """The parameters of the compatible API have the meaning that they have there."""
    assert service.send("GET", query).status == 200
