"""The changes that a tree file asks for, checked in full before anything is written."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from placement.client import exceptions as exc
from placement.client.gathering import Records
from placement.client.patience import RESHAPE_TIMEOUT_S, Patience
from placement.client.provider_tree import ProviderTree
from placement.client.relocation import Move, Relocation
from placement.client.report import ReportClient
from placement.client.tree_edit import TreeEdit
from placement.client.tree_file import FileProblem, FileProvider, TreeFile


class Refused(exc.PlacementClientError):
    """The file would destroy inventory in use, or requires a permission that was not given."""

    summary = "Nothing was changed"


@dataclass
class TreePlan:
    """The trees before and after, and the allocations that move."""

    before: ProviderTree
    wanted: ProviderTree
    moves: list[Move] = field(default_factory=list)
    allocations: Records = field(default_factory=dict)
    """Final records of the moving consumers."""
    refusals: list[str] = field(default_factory=list)
    """The reasons why the file cannot be applied."""

    def changed_inventories(self) -> list[str]:
        """List the providers whose inventory changes, with the providers to be removed."""
        found = []
        uuids = (*self.before.get_provider_uuids(), *self.wanted.get_provider_uuids())
        for uuid in dict.fromkeys(uuids):
            was, will = _get_inventory(self.before, uuid), _get_inventory(self.wanted, uuid)
            if was != will:
                found.append(uuid)
        return found


def make_plan(client: ReportClient, context: Any, file: TreeFile) -> TreePlan:
    """Read the trees of the file from the service and compute the changes, without writing.

    Raises TreeFileError, with line numbers,, if the file does not fit the present state of the service.
    """
    before = client.get_provider_trees(context, _find_roots(client, context, file))
    plan = TreePlan(before, copy.deepcopy(before))
    edit = TreeEdit(file, plan.wanted, file.providers)
    takeovers = edit.run()
    problems = [
        *_find_taken(client, context, edit, before),
        *_find_unknown(client, context, edit, before),
    ]
    if problems:
        raise file.error(*problems)
    losses = _find_losses(plan)
    if losses:
        records = _read_records(client, context, before, losses)
        original = copy.deepcopy(records)
        try:
            plan.moves = Relocation(plan.wanted, records, takeovers).run()
        except exc.ReshapeFailed as error:
            plan.refusals.append(error.error)
            return plan
        plan.allocations = {c: r for c, r in records.items() if r != original[c]}
        plan.refusals.extend(_find_still_used(before, losses, records))
    return plan


def apply_plan(
    client: ReportClient,
    context: Any,
    plan: TreePlan,
    *,
    allow_reshape: bool = False,
    one_by_one: bool = False,
) -> None:
    """Carry a plan out; inventories of several providers change in one request or not at all.

    That request needs the role of the reshaper. ``one_by_one`` avoids that request if no allocations move,
    but the change can then stop half-way. Raises Refused before anything is written.
    """
    if plan.refusals:
        raise Refused("; ".join(plan.refusals))
    if plan.moves and not allow_reshape:
        raise Refused(
            f"{len(plan.moves)} of the allocations would have to move to other providers or classes."
            " Look at the diff, then allow it with --allow-reshape"
        )
    several = len(plan.changed_inventories()) > 1 and not one_by_one
    allocations = plan.allocations if plan.moves or several else None
    try:
        client.update_from_provider_tree(context, plan.wanted, allocations, lists_unchanged=False)
    except (exc.ReshapeFailed, exc.ReshapeConflict):
        client.clear_provider_cache()
        raise


def apply_file(
    client: ReportClient,
    context: Any,
    file: TreeFile,
    *,
    reshape_timeout_s: float = RESHAPE_TIMEOUT_S,
    **permissions: bool,
) -> TreePlan:
    """Plan and apply, starting over on conflicts; return the plan that was carried out."""

    def attempt() -> TreePlan:
        client.clear_provider_cache()
        plan = make_plan(client, context, file)
        apply_plan(client, context, plan, **permissions)
        return plan

    return Patience(reshape_s=reshape_timeout_s).redrive(attempt)


# ---- what the service has


def _find_roots(client: ReportClient, context: Any, file: TreeFile) -> list[str]:
    """Find the roots of the file in the service, by UUID or else by name."""
    found, problems = [], []
    for entry in file.providers:
        if entry.parent is not None:
            continue
        shown = _look_up(client, context, entry)
        if shown is None:
            continue
        if shown.get("parent_provider_uuid"):
            root = shown.get("root_provider_uuid")
            problems.append(
                FileProblem(
                    entry.line,
                    f"{entry.name!r} is not a root in the service: list its tree from {root} down",
                )
            )
        found.append(shown["uuid"])
    if problems:
        raise file.error(*problems)
    return found


def _look_up(client: ReportClient, context: Any, entry: FileProvider) -> dict[str, Any] | None:
    shown = client.api.provider(context, entry.uuid) if entry.uuid else None
    return shown or client.api.provider_named(context, entry.name)


def _find_taken(
    client: ReportClient, context: Any, edit: TreeEdit, before: ProviderTree
) -> Iterator[FileProblem]:
    """Find new providers whose UUID or name belongs to a provider outside the trees of the file."""
    for entry in edit.entries:
        uuid = edit.uuid_of(entry)
        if before.exists(uuid):
            continue
        other = client.api.provider(context, uuid) or client.api.provider_named(context, entry.name)
        if other is not None and not before.exists(other["uuid"]):
            yield FileProblem(
                entry.line,
                f"name {entry.name!r} or its UUID belongs to provider {other['uuid']}"
                f" ({other['name']!r}) in another tree",
            )


def _find_unknown(
    client: ReportClient, context: Any, edit: TreeEdit, before: ProviderTree
) -> Iterator[FileProblem]:
    """Find classes and traits that the service lacks and that cannot be created."""
    new: dict[str, list[tuple[str, int]]] = {"inventories": [], "traits": []}
    for entry in edit.entries:
        uuid = edit.uuid_of(entry)
        stored: set[str] = set()
        if before.exists(uuid):
            data = before.data(uuid)
            stored = {*data.inventory, *data.traits}
        for (part, name), line in entry.lines.items():
            is_custom = name.startswith("CUSTOM_") and name != "CUSTOM_"
            if part in new and name not in stored and not is_custom:
                new[part].append((name, line))
    known_classes = client.api.known_resource_classes(context) if new["inventories"] else set()
    known_traits = client.api.known_traits(context, {name for name, _ in new["traits"]})
    for what, part, known in (
        ("resource class", "inventories", known_classes),
        ("trait", "traits", known_traits),
    ):
        for name, line in new[part]:
            if name not in known:
                yield FileProblem(
                    line, f"no such {what}: {name}. Only names that start with CUSTOM_ are created"
                )


# ---- what would be lost


def _find_losses(plan: TreePlan) -> dict[str, set[str]]:
    """Map providers to the classes that they lose; all classes of a provider that is removed."""
    lost = {}
    for uuid in plan.before.get_provider_uuids():
        classes = set(_get_inventory(plan.before, uuid)) - set(_get_inventory(plan.wanted, uuid))
        if classes:
            lost[uuid] = classes
    return lost


def _read_records(
    client: ReportClient, context: Any, before: ProviderTree, losses: Iterable[str]
) -> Records:
    records: Records = {}
    for root in dict.fromkeys(before.get_provider_uuids_in_tree(uuid)[0] for uuid in losses):
        records.update(client.get_allocations_for_provider_tree(context, root))
    return records


def _find_still_used(
    before: ProviderTree, losses: dict[str, set[str]], records: Records
) -> Iterator[str]:
    for uuid, classes in losses.items():
        for name in sorted(classes):
            users = sorted(
                consumer
                for consumer, record in records.items()
                if name in record["allocations"].get(uuid, {}).get("resources", {})
            )
            if users:
                more = f" and {len(users) - 3} more" if len(users) > 3 else ""
                yield (
                    f"{name} of provider {before.data(uuid).name} ({uuid}) would be destroyed and"
                    f" is in use by {', '.join(users[:3])}{more}. Let a provider take it over"
                    " (takes_over), or delete these allocations"
                )


def _get_inventory(tree: ProviderTree, uuid: str) -> dict[str, Any]:
    return tree.data(uuid).inventory if tree.exists(uuid) else {}
