"""The rows of the history: what each write found and what it left (specification 07 section 11).

A watcher of writes (:mod:`placement.db.writes`) makes them. The watcher reads consumers and providers when a
write has taken them; at the end it gets the new state of consumers from the write, and reads providers again.
The same transaction inserts the rows, so a write that is not committed has none. If the history is off there
is no watcher, and nothing is read or written for it. The rows of a consumer or provider are in the order of
its writes: they are inserted while the transaction locks it, so the next writer's row has a larger id.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    String,
    and_,
    bindparam,
    cast,
    delete,
    func,
    insert,
    literal,
    or_,
    select,
    union_all,
)

from placement import authorship
from placement.authorship import Author
from placement.db import models, provider_rows
from placement.db.change import Change, ConsumerOutcome
from placement.db.clock import NOW
from placement.db.database import Access, Database, Transaction
from placement.db.inventory_rows import RECORD
from placement.db.statements import (
    ROWS_AT_ONCE,
    CompiledStatement,
    Parameters,
    Statement,
    batches,
    is_among,
)
from placement.extensions.history import tables
from placement.inventory_record import InventoryRecord

_history = tables.history
_consumers = models.consumers
_allocations = models.allocations
_providers = models.resource_providers
_inventories = models.inventories
_classes = models.resource_classes

DAY_MS = 86_400_000

State = Mapping[str, Any]
"""The state of a consumer or a provider, as JSON shows it."""


class ConsumerState(NamedTuple):
    """A consumer with what it holds, by provider uuid and class name."""

    generation: int
    project: str | None
    user: str | None
    type: str | None
    held: Mapping[str, Mapping[str, int]]

    def show(self, provider_uuid: str | None) -> State | None:
        """Return the row's state of its holdings on one provider; None if it holds nothing there.

        :param provider_uuid: None for a consumer without any holdings.
        """
        if provider_uuid is not None and provider_uuid not in self.held:
            return None
        return {
            "project_id": self.project,
            "user_id": self.user,
            "consumer_type": self.type,
            "resources": self.held.get(provider_uuid or "", {}),
        }


class HistoryWatcher:
    """A watcher that records in the history what each write finds and what it leaves."""

    def take(
        self,
        tx: Transaction,
        providers: Collection[str],
        consumers: Collection[str],
        new_consumers: Collection[str],
    ) -> Callable[[Change], None]:
        """Read the state before a write; see :class:`placement.db.change.WriteWatcher`."""
        taken = {*consumers, *new_consumers}
        states = _read_consumers(tx, consumers) if consumers else {}
        stocks = _read_providers(tx, providers) if providers else {}

        def note(change: Change) -> None:
            _note_consumers(tx, taken, states, change.consumers)
            if providers:
                _note_providers(tx, providers, stocks)

        return note


def is_kept(db: Database) -> bool:
    """Return whether the history records the writes of this process."""
    return any(isinstance(watcher, HistoryWatcher) for watcher in db.watchers)


# -- consumers -----------------------------------------------------------------------------------


def _read_consumers(tx: Transaction, uuids: Collection[str]) -> dict[str, ConsumerState]:
    """Return the existing consumers before they are written.

    Allocations of a deleted provider or class are in no listing, and not here. One statement per thousand
    consumers.
    """
    found: dict[str, ConsumerState] = {}
    held: dict[str, dict[str, dict[str, int]]] = {}
    for row in tx.rows_of_all(_CONSUMERS, "uuid", uuids):
        uuid, generation, project, user, type_, provider, class_name, used = row
        places = held.setdefault(uuid, {})
        found[uuid] = ConsumerState(generation, project, user, type_, places)
        if provider is not None and class_name is not None:
            resources = places.setdefault(provider, {})
            resources[class_name] = resources.get(class_name, 0) + used
    return found


_CONSUMERS = CompiledStatement(
    select(
        _consumers.c.uuid,
        _consumers.c.generation,
        models.projects.c.external_id,
        models.users.c.external_id,
        models.consumer_types.c.name,
        _providers.c.uuid,
        _classes.c.name,
        _allocations.c.used,
    )
    .select_from(_consumers)
    .outerjoin(models.projects, models.projects.c.id == _consumers.c.project_id)
    .outerjoin(models.users, models.users.c.id == _consumers.c.user_id)
    .outerjoin(models.consumer_types, models.consumer_types.c.id == _consumers.c.consumer_type_id)
    .outerjoin(_allocations, _allocations.c.consumer_id == _consumers.c.uuid)
    .outerjoin(_providers, _providers.c.id == _allocations.c.resource_provider_id)
    .outerjoin(_classes, _classes.c.id == _allocations.c.resource_class_id)
    .where(is_among(_consumers.c.uuid, "uuid"))
    .order_by(_allocations.c.id),
    "uuid",
)


def _note_consumers(
    tx: Transaction,
    uuids: Collection[str],
    before: Mapping[str, ConsumerState],
    outcomes: Mapping[str, ConsumerOutcome],
) -> None:
    """Insert a row for each consumer and provider. One statement."""
    rows: list[dict[str, Any]] = []
    for uuid in sorted(outcomes.keys() & set(uuids)):
        was, outcome = before.get(uuid), outcomes[uuid]
        left = _find_state(was, outcome)
        if was is not None or left is not None:
            author = _show_author(outcome.author)
            rows += (row | author for row in _compare(uuid, was, left))
    _add(tx, rows)


def _find_state(before: ConsumerState | None, outcome: ConsumerOutcome) -> ConsumerState | None:
    """Return a consumer as a write leaves it; None if it is removed."""
    was = before or ConsumerState(0, None, None, None, {})
    if outcome.held == {} or (before is None and outcome.held is None):
        return None
    return ConsumerState(
        outcome.generation,
        was.project if outcome.project is None else outcome.project,
        was.user if outcome.user is None else outcome.user,
        was.type if outcome.type is None else outcome.type,
        was.held if outcome.held is None else outcome.held,
    )


def _compare(
    uuid: str, before: ConsumerState | None, after: ConsumerState | None
) -> Iterator[dict[str, Any]]:
    """Yield the rows of one consumer: one for each provider, or one without a provider."""
    if before is not None and after is not None and before.project != after.project:
        # A change of project makes two rows, so that each project finds its part.
        sides = [(before, None), (None, after)]
    else:
        sides = [(before, after)]
    for old, new in sides:
        named = {place for side in (old, new) if side is not None for place in side.held}
        places: list[str | None] = [*sorted(named)]
        owner = new or old
        for place in places or [None]:
            yield _make_row(
                old and old.show(place),
                new and new.show(place),
                consumer_uuid=uuid,
                provider_uuid=place,
                project=owner and owner.project and _cut(owner.project, 255),
                generation_before=before and before.generation,
                generation_after=after and after.generation,
            )


# -- providers -----------------------------------------------------------------------------------


class _ProviderState(NamedTuple):
    generation: int
    shown: State


def _note_providers(
    tx: Transaction, uuids: Collection[str], before: Mapping[str, _ProviderState]
) -> None:
    after = _read_providers(tx, uuids)
    author = _show_author(authorship.current())
    rows = []
    for uuid in sorted(uuids):
        old, new = before.get(uuid), after.get(uuid)
        if old == new:
            continue
        was, is_now = old and old.shown, new and new.shown
        if was is not None and is_now is not None:
            # Only differences are stored. If there are none, the generation is the difference.
            names = [name for name in was if was[name] != is_now[name]]
            was, is_now = ({name: side[name] for name in names} for side in (was, is_now))
        rows.append(
            _make_row(
                was,
                is_now,
                consumer_uuid=None,
                provider_uuid=uuid,
                project=None,
                generation_before=old and old.generation,
                generation_after=new and new.generation,
            )
            | author
        )
    _add(tx, rows)


def _read_providers(tx: Transaction, uuids: Collection[str]) -> dict[str, _ProviderState]:
    """Return the existing providers with all their data. Three statements per thousand providers."""
    rows = tx.rows_of_all(_PROVIDERS, "uuid", uuids)
    uuid_of = {row[0]: row[1] for row in rows}
    shown: dict[str, dict[str, Any]] = {
        row[1]: {
            "name": row[2],
            "parent_provider_uuid": row[4],
            "inventories": {},
            "traits": [],
            "aggregates": [],
        }
        for row in rows
    }
    for provider_id, class_name, *amounts in tx.rows_of_all(_RECORDS, "id", uuid_of):
        record = InventoryRecord._make(amounts)
        shown[uuid_of[provider_id]]["inventories"][class_name] = record._asdict()
    for provider_id, part, name in tx.rows_of_all(_NAMED, "id", uuid_of):
        shown[uuid_of[provider_id]][part].append(name)
    for each in shown.values():
        each["traits"].sort()
        each["aggregates"].sort()
    return {row[1]: _ProviderState(row[3], shown[row[1]]) for row in rows}


_parents = _providers.alias("parent")
_PROVIDERS = CompiledStatement(
    select(
        _providers.c.id,
        _providers.c.uuid,
        provider_rows.NAME,
        func.coalesce(_providers.c.generation, 0),
        _parents.c.uuid,
    )
    .select_from(_providers)
    .outerjoin(_parents, _parents.c.id == _providers.c.parent_provider_id)
    .where(is_among(_providers.c.uuid, "uuid")),
    "uuid",
)
_RECORDS = CompiledStatement(
    select(
        _inventories.c.resource_provider_id,
        _classes.c.name,
        *RECORD,
    )
    .join_from(_inventories, _classes, _classes.c.id == _inventories.c.resource_class_id)
    .where(is_among(_inventories.c.resource_provider_id, "id"))
    .order_by(_classes.c.id),
    "id",
)


def _select_names(part: str, table: Any, key: str, name: ColumnElement[str], names: Any) -> Any:
    return (
        select(table.c.resource_provider_id, literal(part, String), cast(name, String(255)))
        .join_from(table, names, names.c.id == table.c[key])
        .where(is_among(table.c.resource_provider_id, "id"), name.is_not(None))
    )


_NAMED = CompiledStatement(
    union_all(
        _select_names(
            "traits",
            models.resource_provider_traits,
            "trait_id",
            models.traits.c.name,
            models.traits,
        ),
        _select_names(
            "aggregates",
            models.resource_provider_aggregates,
            "aggregate_id",
            models.placement_aggregates.c.uuid,
            models.placement_aggregates,
        ),
    ),
    "id",
)


# -- rows ----------------------------------------------------------------------------------------


def _make_row(was: State | None, is_now: State | None, **written: Any) -> dict[str, Any]:
    return {
        **written,
        "state_before": None if was is None else json.dumps(was),
        "state_after": None if is_now is None else json.dumps(is_now),
    }


def _show_author(author: Author) -> dict[str, Any]:
    return {
        "request_id": _cut(author.request_id, 64),
        "global_request_id": author.global_request_id,
        "by_user": _cut(author.user, 255),
        "by_project": _cut(author.project, 255),
        "method": _cut(author.method, 16),
        "route": _cut(author.route, 128),
    }


def _add(tx: Transaction, rows: Sequence[Parameters]) -> None:
    """Insert rows, at the latest with the next statement. One statement for each 64, none for no row."""
    for part in batches(rows, ROWS_AT_ONCE):
        values = {f"{name}_{at}": value for at, row in enumerate(part) for name, value in row.items()}
        tx.change_later(Statement(_compile_insert(len(part)), values))


def _cut(text: str, most: int) -> str:
    # The text is ASCII, since a header can contain anything and the database can have any character set.
    return text.encode("ascii", "backslashreplace").decode()[:most]


_WRITTEN = (
    "request_id",
    "global_request_id",
    "by_user",
    "by_project",
    "method",
    "route",
    "consumer_uuid",
    "provider_uuid",
    "project",
    "generation_before",
    "generation_after",
    "state_before",
    "state_after",
)


@lru_cache(maxsize=ROWS_AT_ONCE)
def _compile_insert(count: int) -> CompiledStatement:
    def bind(name: str, key: str) -> ColumnElement[Any]:
        return bindparam(key, type_=_history.c[name].type)

    rows = [
        {"written_at": NOW, **{name: bind(name, f"{name}_{at}") for name in _WRITTEN}}
        for at in range(count)
    ]
    return CompiledStatement(insert(_history).values(rows))


# -- reading, and what is too old ----------------------------------------------------------------


class HistoryRow(NamedTuple):
    """One row of the history. Times are milliseconds since the epoch; the states are JSON, or None."""

    id: int
    written_at: int
    request_id: str
    global_request_id: str | None
    by_user: str
    by_project: str
    method: str
    route: str
    consumer_uuid: str | None
    provider_uuid: str | None
    project: str | None
    generation_before: int | None
    generation_after: int | None
    state_before: str | None
    state_after: str | None
    provider_name: str | None


def find(access: Access, given: Mapping[str, Any], most: int) -> list[HistoryRow]:
    """Return the newest matching rows, newest first. One statement.

    :param given: the values by name of ``CONDITIONS``; ``at`` and ``id`` belong to the last row of the
        previous page.
    """
    statement = _compile_find(*sorted(given))
    texts = {name: _cut(given[name], 255) for name in ("project", "request_id") if name in given}
    given = {**given, **texts}
    return [HistoryRow(*row) for row in access.rows(statement, {**given, "most": most})]


CONDITIONS: Mapping[str, ColumnElement[bool]] = {
    **{
        name: _history.c[name] == bindparam(name)
        for name in ("consumer_uuid", "provider_uuid", "project")
    },
    "request_id": or_(
        _history.c.request_id == bindparam("request_id"),
        _history.c.global_request_id == bindparam("request_id"),
    ),
    "since": _history.c.written_at >= bindparam("since"),
    "until": _history.c.written_at < bindparam("until"),
    # The database can only use an index for the first condition.
    "at": _history.c.written_at <= bindparam("at"),
    "id": or_(_history.c.written_at < bindparam("at"), _history.c.id < bindparam("id")),
}


_name_now = (
    select(provider_rows.NAME)
    .where(models.resource_providers.c.uuid == _history.c.provider_uuid)
    .scalar_subquery()
)


@cache
def _compile_find(*names: str) -> CompiledStatement:
    return CompiledStatement(
        select(*(_history.c[name] for name in HistoryRow._fields[:-1]), _name_now)
        .where(and_(True, *(CONDITIONS[name] for name in names)))
        .order_by(_history.c.written_at.desc(), _history.c.id.desc())
        .limit(bindparam("most"))
    )


def remove_old(tx: Transaction, days: float, most: int) -> int:
    """Delete older rows, up to a number, and return how many. Two statements."""
    # Rows that another worker is deleting are skipped.
    ids = tx.column(_OLD, {"age": int(days * DAY_MS), "most": most})
    if not ids:
        return 0
    return sum(tx.change(_REMOVE, {"id": part}) for part in batches(sorted(ids)))


_OLD = CompiledStatement(
    select(_history.c.id)
    .where(_history.c.written_at < NOW - bindparam("age", type_=_history.c.written_at.type))
    .order_by(_history.c.written_at)
    .limit(bindparam("most"))
    .with_for_update(skip_locked=True)
)
_REMOVE = CompiledStatement(delete(_history).where(is_among(_history.c.id, "id")), "id")
