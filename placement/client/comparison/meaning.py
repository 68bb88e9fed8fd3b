"""The comparison of two answers by their meaning, not their notation.

The order of a list never matters in this API, so lists are compared as sets. Errors are compared by status
and code: their texts may name several things in any order. Request ids and times are left out. Candidates cut
by a limit are compared by their number, and must be valid on each side.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from placement.client.comparison.question import ComparedQuestion, QuestionKind

SHOWN = 5
"""The most differing places of two answers that are named."""


@dataclass(frozen=True, slots=True)
class SideAnswer:
    """The answer of one side: status (0: no answer), body, parsed if it is JSON, and time."""

    status: int
    body: Any
    seconds: float
    trouble: str = ""


def describe_difference(question: ComparedQuestion, old: SideAnswer, new: SideAnswer) -> str | None:
    """Describe where the two answers differ in meaning; None if they do not."""
    for side, answer in (("OLD", old), ("NEW", new)):
        if answer.trouble:
            return f"{side} did not answer: {answer.trouble}"
    if old.status != new.status:
        return f"status {old.status} against {new.status}"
    if old.status >= 400:
        codes = _read_codes(old.body), _read_codes(new.body)
        return None if codes[0] == codes[1] else f"error code {codes[0]} against {codes[1]}"
    if question.kind is QuestionKind.SEARCHES:
        return _compare_candidates(question, old.body, new.body)
    return _compare_bodies(old.body, new.body)


def describe_refusal(answer: SideAnswer) -> str:
    """Return the status of an answer with what the service, or a proxy, says."""
    return _shorten(" ".join(f"HTTP {answer.status} {answer.body}".split()))


def normalize(value: Any) -> Any:
    """Return the value with every list in one order, and its numbers as one type."""
    if isinstance(value, dict):
        return {name: normalize(each) for name, each in value.items()}
    if isinstance(value, list):
        return sorted((normalize(each) for each in value), key=_write_text)
    return float(value) if type(value) is int else value


def _write_text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _read_codes(body: Any) -> list[str]:
    errors = body.get("errors", []) if isinstance(body, dict) else []
    return [str(error.get("code", "")) for error in errors]


def _find_differences(old: Any, new: Any, where: str) -> Iterator[str]:
    """Yield each place where two normalized values differ, in the order of names."""
    if old == new:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted(old.keys() | new.keys()):
            here = f"{where}.{name}" if where else name
            if name not in new:
                yield f"only OLD has {here}"
            elif name not in old:
                yield f"only NEW has {here}"
            else:
                yield from _find_differences(old[name], new[name], here)
    elif isinstance(old, list) and isinstance(new, list):
        left, right = (Counter(map(_write_text, side)) for side in (old, new))
        for side, extra in (("OLD", left - right), ("NEW", right - left)):
            if extra:
                yield f"{where}: {extra.total()} only in {side}, as {_shorten(min(extra))}"
    else:
        ours, theirs = _shorten(_write_text(old)), _shorten(_write_text(new))
        yield f"{where or 'the answer'}: {ours} against {theirs}"


def _compare_bodies(old: Any, new: Any) -> str | None:
    return "; ".join(islice(_find_differences(normalize(old), normalize(new), ""), SHOWN)) or None


def _shorten(text: str) -> str:
    return text if len(text) <= 200 else text[:197] + "..."


def _compare_candidates(question: ComparedQuestion, old: Any, new: Any) -> str | None:
    counts = [len(body["allocation_requests"]) for body in (old, new)]
    if counts[0] != counts[1]:
        return f"{counts[0]} candidates against {counts[1]}"
    limit = question.query.get("limit", [""])[0]
    if not limit.isdecimal() or counts[0] < int(limit):
        return _compare_bodies(old, new)
    for side, body in (("OLD", old), ("NEW", new)):
        for candidate in body["allocation_requests"]:
            wrong = _find_fault(question, candidate, body["provider_summaries"])
            if wrong:
                return f"{side} offers an impossible candidate: {wrong}"
    return None


def _find_fault(
    question: ComparedQuestion, candidate: Mapping[str, Any], summaries: Any
) -> str | None:
    """Say why a candidate does not serve the question: wrong amounts, or not enough room for them."""
    asked: Counter[str] = Counter()
    for name, values in question.query.items():
        if name.startswith("resources"):
            for part in values[0].split(","):
                resource_class, _, amount = part.partition(":")
                asked[resource_class] += int(amount)
    given: Counter[str] = Counter()
    for uuid, resources in _read_allocations(candidate["allocations"]):
        shown = summaries.get(uuid, {}).get("resources", {})
        for name, units in resources.items():
            given[name] += units
            place = shown.get(name)
            if place is None or place["capacity"] - place["used"] < units:
                return f"{uuid} has no room for {name}:{units}"
    return None if given == asked else f"{dict(given)} for {dict(asked)}"


def _read_allocations(shown: Any) -> list[tuple[str, Mapping[str, int]]]:
    """Return provider and amounts, from a list (before 1.12) or a mapping."""
    if isinstance(shown, list):
        return [(one["resource_provider"]["uuid"], one["resources"]) for one in shown]
    return [(uuid, one["resources"]) for uuid, one in shown.items()]
