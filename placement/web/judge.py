"""The fast judge of JSON: jsonschema-rs, where it is installed (specification 01 section 8).

It says in microseconds that a value is valid; jsonschema finds the words for what is not. Without it
jsonschema does both: a claim takes 0.1 ms more, and half a megabyte 0.7 s instead of 0.01. So bodies are
smaller then.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

try:
    import jsonschema_rs
except ImportError:
    jsonschema_rs = None  # type: ignore[assignment]

Checks = Mapping[str, Callable[[object], bool]]

JUDGED_TOGETHER = 1000

LARGEST_BODY = 512 * 1024
"""Bytes of a body that jsonschema judges alone: 0.7 s at the worst."""


def explain_absence() -> str | None:
    """Return a sentence about what it means that jsonschema-rs is not installed, or None if it is."""
    if jsonschema_rs is not None:
        return None
    return (
        "jsonschema-rs is not installed: jsonschema judges requests alone, which takes longer, and a body of"
        f" more than {LARGEST_BODY} bytes is refused whatever [placement]/max_request_body_size says."
        " pip install jsonschema-rs ends that."
    )


def limit_body(configured: int) -> int:
    """Return how many bytes a body may have, of so many that are configured."""
    return configured if jsonschema_rs is not None else min(configured, LARGEST_BODY)


def make_judge(schema: Any, checks: Checks) -> Callable[[Any], bool] | None:
    """Return the fast judge of a schema, with the checks of its formats, if there is one."""
    if jsonschema_rs is None:
        return None
    judge = jsonschema_rs.Draft202012Validator(schema, formats=dict(checks), validate_formats=True)
    return judge.is_valid


def find_suspects(values: list[Any], schema: Any, checks: Checks) -> Iterator[int]:
    """Yield the positions of the values that a schema refuses; of all, where there is no fast judge."""
    one, many = make_judge(schema, checks), make_judge({"items": schema}, checks)
    if one is None or many is None:
        yield from range(len(values))
        return
    for begin in range(0, len(values), JUDGED_TOGETHER):
        # One call for many: only where one of them is wrong is each judged by itself.
        some = values[begin : begin + JUDGED_TOGETHER]
        if not many(some):
            yield from (begin + at for at, value in enumerate(some) if not one(value))


def are_distinct(values: list[Any]) -> bool:
    """Say whether no two values are equal JSON. No value is compared with all others."""
    distinct = make_judge({"uniqueItems": True}, {})
    if distinct is not None:
        return distinct(values)
    return len(set(map(_make_hashable, values))) == len(values)


def _make_hashable(value: Any) -> Any:
    """Return a value that equals another's where both are equal JSON: 1 and 1.0 are, 1 and true are not."""
    if isinstance(value, list):
        return "list", *map(_make_hashable, value)
    if isinstance(value, dict):
        return "dict", frozenset((name, _make_hashable(member)) for name, member in value.items())
    return isinstance(value, bool), value
