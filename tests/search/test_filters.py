"""A filter of allocation candidates is missing from nothing that lists filters."""

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import placement
from placement.handlers import candidate_query
from placement.schemas import allocation_candidate as schemas
from placement.search.filters import BY_REASON, FILTERS, GROUP_PARAMETERS, ROOT_FILTERS, conditions
from placement.search.request import CandidateRequest, Group
from placement.search.tally import Reason, Stop
from placement.web.microversion import MAXIMUM

EXPLORER = Path(placement.__file__).parent / "extensions" / "explorer" / "page"
OTHER_STEPS = {
    Reason.AVOIDED,
    Reason.CAPACITY,
    Reason.ALL_CLASSES,
    Reason.NO_DEMAND,
    Reason.NO_CHOICE,
    Reason.OTHER_GROUPS,
}
"""What is counted beside the filters."""


def asking(kind: type, name: str, default: Any) -> Any:
    """A group, or a request, that asks one thing."""
    value: Any = "x"
    if isinstance(default, tuple):
        value = (frozenset(["x"]),)
    elif isinstance(default, frozenset):
        value = frozenset(["x"])
    return kind(**{name: value}, **({"suffix": "_A"} if kind is Group else {"groups": ()}))


def test_all_that_a_group_asks_beside_amounts_is_a_filter() -> None:
    for field in fields(Group):
        # No query asks for ``among``: it says where the parts of a consumer may go.
        if field.name not in ("suffix", "amounts", "among"):
            asked = list(conditions(FILTERS, asking(Group, field.name, field.default)))
            assert [names for _, names in asked] == [frozenset(["x"])], field.name


def test_all_that_is_asked_of_the_root_is_a_filter() -> None:
    for field in fields(CandidateRequest):
        if field.name.startswith("root_"):
            asked = list(
                conditions(ROOT_FILTERS, asking(CandidateRequest, field.name, frozenset()))
            )
            assert [names for _, names in asked] == [frozenset(["x"])], field.name


def test_a_condition_is_written_as_in_a_query() -> None:
    written = [
        [each.value(frozenset(names)) for names in (["x"], ["y", "x"])]
        for each in FILTERS
        if each.parameter == "required"
    ]
    assert written == [["x", "in:x,y"], ["!x", "!in:x,y"]]


def test_each_reason_is_that_of_one_filter_or_of_none() -> None:
    assert len(BY_REASON) == len(FILTERS) + len(ROOT_FILTERS)
    assert set(Reason) - BY_REASON.keys() == OTHER_STEPS


def test_each_parameter_is_read_and_accepted_with_a_suffix() -> None:
    schema = schemas.GET.at(MAXIMUM.minor).document
    for name in GROUP_PARAMETERS:
        assert name in candidate_query.READERS
        assert any(re.search(key, f"{name}_A") for key in schema["patternProperties"]), name


def test_explorer_knows_parameters_and_constants() -> None:
    query = (EXPLORER / "model" / "query.js").read_text()
    assert f"({'|'.join(GROUP_PARAMETERS)})" in query
    funnel = (EXPLORER / "parts" / "funnel.js").read_text()
    for constant in (*Reason, *Stop):
        assert f"  {constant}: " in funnel, constant
    for name in {each.parameter for each in BY_REASON.values()}:
        assert f"    {name}: " in funnel, name
