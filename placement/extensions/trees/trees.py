"""Whole trees in one answer, with a tag that changes whenever the answer would (specification 07 5).

The tag of a tree is made of the ids, revisions and generations of its providers. Every committed
change to what a tree shows, consumers too, moves one of them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from placement import errors
from placement.db import tree_rows
from placement.db.cloud_rows import Contents
from placement.db.database import Database, Snapshot
from placement.db.tree_rows import HeldBy, Member
from placement.extensions.claims import group_rows, hold_rows
from placement.inventory_record import InventoryRecord
from placement.objects import provider_search
from placement.objects.picture import Picture
from placement.objects.provider_search import ProviderQuery
from placement.objects.resource_provider import ProviderNotFound
from placement.printable import show_time
from placement.search.cloud import Cloud
from placement.search.index_set import Indexes

NO_TYPE = "unknown"
"""The type shown for a consumer without one, as in the allocations of a consumer."""


class UnknownMarker(errors.BadRequest):
    """The request names a provider in ``after`` that does not exist."""

    reason = "unknown_provider"
    about = "uuid"
    text = "Invalid query string parameters: 'after' names no resource provider: {uuid}"
    uuid: str


@dataclass(frozen=True, slots=True)
class TreesQuery:
    """The trees with a provider that ``providers`` finds and with one of ``uuids``.

    ``uuids``: None means any. ``after``: the last root of the previous page.
    """

    providers: ProviderQuery
    uuids: frozenset[str] | None = None
    limit: int = 100
    after: str | None = None
    allocations: bool = False


class Page(NamedTuple):
    """A page with its tag; ``trees`` is None if the client already has the page."""

    tag: str
    trees: list[dict[str, Any]] | None = None
    next: str | None = None


def show(db: Database, uuid: str, *, allocations: bool, known: frozenset[str]) -> Page:
    """Return the tree with the provider ``uuid``.

    One statement if ``known`` has its tag; otherwise five more in one snapshot, and one for allocations,
    three if consumers are held or in groups.

    :param known: the tags that the client has; ``*`` means any.
    :raises ProviderNotFound: the provider does not exist
    """
    if known:
        members = _require_members(db.read(lambda tx: tree_rows.members(tx, uuid)), uuid)
        tag = _make_tag(members, allocations)
        if _is_known(tag, known):
            return Page(tag)

    def read(tx: Snapshot) -> Page:
        members = _require_members(tree_rows.members(tx, uuid), uuid)
        trees = _make_documents(tx, members, allocations)
        return Page(trees[0]["etag"], trees)

    return db.snapshot(read)


def _require_members(members: list[Member], uuid: str) -> list[Member]:
    if not members:
        raise ProviderNotFound(uuid=uuid)
    return members


def find(db: Database, picture: Picture, query: TreesQuery, *, known: frozenset[str]) -> Page:
    """Return a page of the trees that the query selects, in the order of the ids of their roots.

    One statement if ``known`` has its tag and no provider changed. The page is read in one snapshot.
    """
    chosen = provider_search.search(
        picture, query.providers, lambda cloud, found: _choose(cloud, found, query)
    )
    tag = _make_tag(chosen.members, query.allocations, chosen.next, "page")
    if _is_known(tag, known):
        return Page(tag)

    def read(tx: Snapshot) -> Page:
        members = tree_rows.members_of_roots(tx, chosen.roots)
        trees = _make_documents(tx, members, query.allocations)
        tag = _make_tag(members, query.allocations, chosen.next, "page")
        return Page(tag, trees, chosen.next)

    return db.snapshot(read)


class _Chosen(NamedTuple):
    roots: list[int]
    members: list[Member]
    next: str | None


def _choose(cloud: Cloud, found: Indexes, query: TreesQuery) -> _Chosen:
    if query.uuids is not None:
        found = found[np.isin(found, [cloud.index_of_uuid.get(uuid, -1) for uuid in query.uuids])]
    roots = np.unique(cloud.roots[found])
    roots = roots[np.argsort(cloud.ids[roots])]
    if query.after is not None:
        marker = cloud.index_of_uuid.get(query.after)
        if marker is None:
            raise UnknownMarker(uuid=query.after)
        roots = roots[cloud.ids[roots] > cloud.ids[cloud.roots[marker]]]
    page = roots[: query.limit]
    following = str(cloud.uuids[int(page[-1])]) if len(page) < len(roots) else None
    members = cloud.forest.trees(page)[0] if len(page) else page
    columns = (cloud.ids, cloud.ids[cloud.roots], cloud.revisions, cloud.generations)
    rows = zip(*(column[members].tolist() for column in columns), strict=True)
    return _Chosen(cloud.ids[page].tolist(), [Member(*row) for row in rows], following)


# -- tags --------------------------------------------------------------------------------------


def _make_tag(members: Iterable[Member], *shown: object) -> str:
    """Return the tag of a tree or page that shows these members and the further values."""
    text = repr((sorted(tuple(member) for member in members), *shown))
    return blake2b(text.encode(), digest_size=16).hexdigest()


def _is_known(tag: str, known: frozenset[str]) -> bool:
    return tag in known or "*" in known


# -- what is shown -----------------------------------------------------------------------------


AMOUNT_NAMES = (*InventoryRecord._fields, "used")

Document = dict[str, Any]


def _make_documents(tx: Snapshot, members: Sequence[Member], allocations: bool) -> list[Document]:
    """Return the trees in the order of the ids of their roots."""
    ids = [member.id for member in members]
    contents = tree_rows.contents(tx, ids)
    shown = _show_providers(contents)
    if allocations:
        held = tree_rows.allocations(tx, ids)
        _add_allocations(shown, contents, held, _read_claimed(tx, held))
    rows = {row[0]: row for row in contents.providers}
    trees: dict[int, list[Member]] = {}
    for member in members:
        # A provider whose root was deleted is its own tree, as in a search.
        root_id = member.root_id if member.root_id in rows else member.id
        trees.setdefault(root_id, []).append(member)
    return [
        {
            "root": shown[root_id]["uuid"],
            "etag": _make_tag(mine, allocations),
            "providers": [shown[each] for each in _walk_tree(root_id, mine, rows)],
        }
        for root_id, mine in sorted(trees.items())
        if root_id in shown
    ]


def _walk_tree(
    root_id: int, members: Iterable[Member], rows: Mapping[int, Sequence[Any]]
) -> Iterator[int]:
    """Yield the providers of a tree: parents before children, siblings by name.

    No provider is repeated, even if another service has written wrong parents: a root's parent is ignored.
    """
    children: dict[int, list[int]] = {}
    for row in sorted((rows[member.id] for member in members), key=lambda row: row[5]):
        if row[0] != root_id:
            children.setdefault(row[3], []).append(row[0])
    line = [root_id]
    while line:
        provider_id = line.pop()
        yield provider_id
        line += reversed(children.get(provider_id, ()))


def _show_providers(contents: Contents) -> dict[int, Document]:
    """Return the documents of the providers by id, without allocations."""
    uuids = {row[0]: row[1] for row in contents.providers}
    shown: dict[int, Document] = {
        provider_id: {
            "uuid": uuid,
            "name": name,
            "parent": uuids.get(parent_id),
            "generation": generation,
            "inventories": {},
            "traits": [],
            "aggregates": [],
        }
        for provider_id, uuid, _, parent_id, _, name, generation, _ in contents.providers
    }
    for provider_id, name, *amounts in sorted(contents.inventories):
        record = dict(zip(AMOUNT_NAMES, amounts, strict=True))
        shown[provider_id]["inventories"][name] = record
    for kind, pairs in (("traits", contents.traits), ("aggregates", contents.aggregates)):
        for provider_id, name in sorted(pairs):
            shown[provider_id][kind].append(name)
    return shown


def _add_allocations(
    shown: Mapping[int, Document],
    contents: Contents,
    rows: Sequence[HeldBy],
    claimed: Mapping[str, Document],
) -> None:
    """Add to each provider its allocations by consumer, with the owners."""
    roots = {row[0]: row[4] for row in contents.providers}
    in_tree = Counter((roots[row.provider_id], row.consumer_uuid) for row in rows)
    for document in shown.values():
        document["allocations"] = {}
    for row in rows:
        held = shown[row.provider_id]["allocations"]
        if row.consumer_uuid not in held:
            held[row.consumer_uuid] = {
                "resources": {},
                "project": row.project,
                "user": row.user,
                "type": row.type or NO_TYPE,
                "generation": row.generation,
                "elsewhere": row.in_all > in_tree[roots[row.provider_id], row.consumer_uuid],
                **claimed.get(row.consumer_uuid, {}),
            }
        held[row.consumer_uuid]["resources"][row.class_name] = row.used


def _read_claimed(tx: Snapshot, rows: Sequence[HeldBy]) -> dict[str, Document]:
    """Return the groups and the ends of holds of the consumers that have them (specification 09)."""
    claimed: dict[str, Document] = {}
    if rows and hold_rows.are_claims_used(tx):
        uuids = {row.consumer_uuid for row in rows}
        for uuid, names in group_rows.names_by_consumer(tx, uuids).items():
            claimed[uuid] = {"groups": names}
        for uuid, hold in hold_rows.find_valid(tx, uuids).items():
            claimed.setdefault(uuid, {})["held_until"] = show_time(hold.expires_at)
    return claimed
