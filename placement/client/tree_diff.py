"""The changes of a plan as lines, in colour if wanted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from placement.client.provider_tree import ProviderData, ProviderTree
from placement.client.relocation import Move
from placement.client.tree_plan import TreePlan
from placement.printable import escape_unprintable

_COLOURS = {"+": "32", "-": "31", "~": "33", ">": "36", "!": "1;31"}


def diff_lines(plan: TreePlan) -> list[str]:
    """List the changes, one per line; the list is empty if there are none.

    The first sign of a line says what happens: ``+`` added, ``-`` removed, ``~`` changed,
    ``>`` allocations move, ``!`` the plan is refused.
    """
    lines = [line for uuid in _list_providers(plan) for line in _describe_provider(plan, uuid)]
    names = _name_providers(plan.before, plan.wanted)
    lines.extend(_describe_move(move, names) for move in plan.moves)
    lines.extend(f"! {reason}" for reason in plan.refusals)
    return [escape_unprintable(line) for line in lines]


def colour_lines(lines: Iterable[str]) -> Iterator[str]:
    """Colour lines of a diff for a terminal, by their first sign."""
    for line in lines:
        colour = _COLOURS.get(line.lstrip()[:1])
        yield f"\x1b[{colour}m{line}\x1b[0m" if colour else line


def _list_providers(plan: TreePlan) -> list[str]:
    kept = plan.wanted.get_provider_uuids()
    gone = [uuid for uuid in plan.before.get_provider_uuids() if not plan.wanted.exists(uuid)]
    return kept + gone


def _name_providers(*trees: ProviderTree) -> dict[str, str]:
    return {uuid: place[0] for tree in trees for uuid, place in tree.places().items()}


def _describe_provider(plan: TreePlan, uuid: str) -> Iterator[str]:
    was = plan.before.data(uuid) if plan.before.exists(uuid) else None
    will = plan.wanted.data(uuid) if plan.wanted.exists(uuid) else None
    changes = [
        *_describe_inventories(was, will),
        *_describe_sets("trait", was, will),
        *_describe_sets("aggregate", was, will),
    ]
    shown = will or was
    assert shown is not None
    if was is not None and will is not None:
        if changes:
            yield f"  {shown.name} ({uuid})"
            yield from changes
        return
    under = ""
    if shown.parent_uuid is not None:
        under = f" under {_name_providers(plan.before, plan.wanted)[shown.parent_uuid]}"
    yield f"{'-' if will is None else '+'} provider {shown.name} ({uuid}){under}"
    yield from changes


def _describe_inventories(was: ProviderData | None, will: ProviderData | None) -> Iterator[str]:
    old = was.inventory if was else {}
    new = will.inventory if will else {}
    for name in sorted({*old, *new}):
        if name not in new:
            yield f"    - {name}: {_describe_record(old[name])}"
        elif name not in old:
            yield f"    + {name}: {_describe_record(new[name])}"
        elif old[name] != new[name]:
            changed = ", ".join(
                f"{key} {old[name].get(key, 'default')} -> {value}"
                for key, value in new[name].items()
                if old[name].get(key) != value
            )
            yield f"    ~ {name}: {changed}"


def _describe_record(record: dict[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in record.items())


def _describe_sets(what: str, was: ProviderData | None, will: ProviderData | None) -> Iterator[str]:
    old: set[str] = getattr(was, f"{what}s", set())
    new: set[str] = getattr(will, f"{what}s", set())
    yield from (f"    - {what} {one}" for one in sorted(old - new))
    yield from (f"    + {what} {one}" for one in sorted(new - old))


def _describe_move(move: Move, names: dict[str, str]) -> str:
    new_class = f" as {move.as_class}" if move.as_class != move.resource_class else ""
    return (
        f"> consumer {move.consumer_uuid}: {move.amount} {move.resource_class} from"
        f" {names[move.source_uuid]} to {names[move.target_uuid]}{new_class}"
    )
