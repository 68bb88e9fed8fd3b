"""The scrub, which compares derived values with their sources, range by range, and corrects them.

Counters, sums of owners and digests are right as long as only services write. A statement by hand, a restored
table or a fault of ours makes them wrong, and nothing would ever report it. The stages of a round walk
through the ids of providers and projects. A part of a stage is a few statements on a range of ids, outside
any transaction; each statement sees one state of both sides. A difference is read again under the locks that
writers take, and corrected as ``db check --repair`` would.

This module has no clock and no state: :mod:`placement.objects.scrubber` knows the time and the progress.
"""

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from typing import Any

from sqlalchemy import (
    Boolean,
    ColumnElement,
    Select,
    bindparam,
    func,
    literal,
    or_,
    select,
    union_all,
    update,
)

from placement import telemetry
from placement.db import (
    cloud_rows,
    counters,
    dialects,
    digests,
    invariants,
    lost_rows,
    models,
    named_rows,
    owner_usage_rows,
    provider_rows,
    scrub_rows,
    writes,
)
from placement.db.change import Change
from placement.db.coexistence import adoption, state
from placement.db.coexistence.state import IS_FOREIGN, UNDER_WAY, is_under_way
from placement.db.database import Access, Database, Transaction
from placement.db.invariants import Invariant
from placement.db.owner_usage_rows import Account
from placement.db.statements import (
    CompiledStatement,
    Parameters,
    Row,
    batches,
    is_among,
    within_reach,
)
from placement.printable import escape_unprintable

LOG = logging.getLogger(__name__)

_providers = models.resource_providers
_inventories = models.inventories
_allocations = models.allocations
_consumers = models.consumers
_usages = models.owner_usages

AT_ONCE = 100
"""The number of providers that one transaction locks."""

WAIT_S = 1.0
"""How long a worker waits for locked rows; otherwise a later round corrects them."""

BEYOND = 2**62
"""A value larger than any id: the last part of a stage also finds rows whose own row is missing."""

WARNING = "Something other than this service writes to this database."

WHAT = {
    "usage": "resource providers whose usage differed from their allocations",
    "contents": "resource providers that were changed and not read again by searches",
    "owners": "projects whose usage differed from their allocations",
    "rows": "rows that referred to missing rows, or were missing",
}
"""The mended things, by the label of the metric."""

assert tuple(WHAT) == telemetry.HEALED.at_zero, "the metrics show each of them from the start"


@dataclass
class Part:
    """The findings in one part of a stage.

    ``last``: the last id of the part, None for the end of the stage. ``rows``: the number of ids. ``healed``:
    the corrected faults with their numbers. ``left``: the faults that an operator must correct.
    """

    last: int | None
    rows: int
    healed: Counter[str] = field(default_factory=Counter)
    left: list[invariants.Finding] = field(default_factory=list)


@dataclass(frozen=True)
class ScrubOptions:
    """The options of the comparison of a part.

    :param thorough: look for rows that should not exist even if all sums agree.
    :param wait_s: the time to wait for each lock; None for the usual time of a write.
    """

    thorough: bool = False
    wait_s: float | None = WAIT_S


@dataclass(frozen=True, eq=False)
class Stage:
    """A walk through ids in a table.

    :param compare: takes the range of ids, as the parameters of :func:`_within`.
    :param size: the rows of a part: enough to make the planning of its statements negligible.
    :param every: the stage runs once in this number of rounds.
    """

    name: str
    ids: ColumnElement[int]
    size: int
    compare: Callable[[Database, Parameters, Part, ScrubOptions], None]
    every: int = 1

    @cached_property
    def bounds(self) -> CompiledStatement:
        """The number of ids in the next part, and the last of them."""
        next_ones = select(self.ids.label("id")).where(self.ids > bindparam("after")).order_by(self.ids)
        some = next_ones.limit(bindparam("size")).subquery()
        return CompiledStatement(select(func.count(), func.max(some.c.id)))

    def go_on(self, db: Database, after: int, size: int, options: ScrubOptions) -> Part:
        """Compare the ids of the next ``size`` rows, and correct differences.

        :raises errors.PlacementError: the database is busy, or does not accept writes.
        """
        bounds = {"after": after, "size": size}
        ((rows, last),) = db.read(lambda reader: reader.rows(self.bounds, bounds))
        part = Part(last if rows == size else None, rows)
        last = BEYOND if part.last is None else part.last
        self.compare(db, {"after": after, "last": last}, part, options)
        return part


def _within(column: ColumnElement[int]) -> ColumnElement[bool]:
    return (column > bindparam("after")) & (column <= bindparam("last"))


# The scrub promises a share of one processor, measured by the clock. PostgreSQL uses three processors for a
# long statement, unless it calls a function that parallel workers may not run.
_BY_ONE_PROCESS: ColumnElement[bool] = dialects.DialectText(
    {
        "postgresql": "(SELECT set_config('max_parallel_workers_per_gather', '0', true)) = '0'",
        **dict.fromkeys(("sqlite", "mysql"), "1 = 1"),
    },
    type_=Boolean(),
)


# Providers: usage

_held = (_allocations.c.resource_provider_id, _allocations.c.resource_class_id)
_both_ways = union_all(
    select(
        _inventories.c.resource_provider_id.label("provider"),
        _inventories.c.resource_class_id.label("class"),
        within_reach(_inventories.c.used).label("amount"),
        literal(1).label("is_there"),
    ).where(_within(_inventories.c.resource_provider_id)),
    # The ledger is added up first: in the order of an index, and so without a temporary table.
    select(*_held, -func.sum(_allocations.c.used), literal(0))
    .where(_within(_allocations.c.resource_provider_id))
    .group_by(*_held),
).subquery()
_surplus, _is_there = func.sum(_both_ways.c.amount), func.max(_both_ways.c.is_there)
_WRONG_USAGE = CompiledStatement(
    select(_both_ways.c.provider, _is_there)
    .where(_BY_ONE_PROCESS)
    .group_by(_both_ways.c.provider, _both_ways.c["class"])
    .having(or_(_surplus != 0, _is_there == 0))
)
"""Providers with a wrong counter, or (0) with allocations but without inventory."""

_LEDGER = CompiledStatement(
    select(
        _inventories.c.resource_provider_id,
        _inventories.c.id,
        _inventories.c.resource_class_id,
        _inventories.c.used,
        counters.LEDGER_SUM,
    ).where(is_among(_inventories.c.resource_provider_id, "provider"))
)


def _mend_counters(tx: Transaction, ids: Collection[int]) -> list[str]:
    """Count the usage of providers from the ledger; return a sentence for each wrong one.

    During a coexistence the other service can cause a difference, and the counters are not used. A corrected
    counter then marks providers that workers have read since; they read the others again, where rows were
    changed in place.
    """
    # Writers of allocations lock these rows while they move a counter.
    names = {row.id: uuid for uuid, row in provider_rows.lock(tx, (), ids).items()}
    found = tx.rows(_LEDGER, {"provider": sorted(ids)})
    rows = [row for row in found if row[0] in names and row[3] != row[4]]
    classes = named_rows.describe(tx, named_rows.CLASSES, {row[2] for row in rows})
    wrong: defaultdict[int, list[str]] = defaultdict(list)
    right: dict[int, int] = {}
    for provider_id, record_id, class_id, kept, counted in rows:
        right[record_id] = int(counted)
        wrong[provider_id].append(f"{classes[class_id]} was kept as {kept} and is {counted}")
    counters.correct(tx, right)
    writes.finish(tx, Change(touched=wrong.keys()))
    if wrong and is_under_way(tx):
        return []
    return [
        f"Usage of resource provider {names[key]} differed from its allocations: {', '.join(said)}"
        for key, said in wrong.items()
    ]


# Providers: what searches read of them

_sums = digests.select_sums(_within)
_UNLIKE = CompiledStatement(
    select(_providers.c.id)
    .outerjoin(_sums, _sums.c.provider == _providers.c.id)
    .where(
        _within(_providers.c.id),
        _BY_ONE_PROCESS,
        or_(
            _providers.c.digest.is_(None),
            _providers.c.own_revision.is_(None),
            _providers.c.own_revision != _providers.c.revision,
            _providers.c.digest != digests.of_row() + func.coalesce(_sums.c.parts, 0),
            IS_FOREIGN & ~UNDER_WAY,
        ),
    )
)
_DIGESTS = CompiledStatement(
    select(
        _providers.c.id,
        _providers.c.digest,
        digests.of_provider(),
        _providers.c.own_revision,
        _providers.c.revision,
        provider_rows.NAME,
        IS_FOREIGN & ~UNDER_WAY,
        scrub_rows.IS_OF_ANOTHER_MEASURE,
    ).where(is_among(_providers.c.id, "provider"))
)
_NOTE_DIGESTS = CompiledStatement(
    update(_providers)
    .where(is_among(_providers.c.id, "provider"))
    .values(
        own_revision=_providers.c.revision,
        digest=digests.of_provider(),
        updated_at=_providers.c.updated_at,
    )
)


def _mend_contents(tx: Transaction, ids: Collection[int]) -> list[str]:
    """Let searches read manual changes again; return a sentence for each changed provider.

    A digest that is unknown, or that a worker of the previous release skipped, is stored without a report.
    """
    provider_rows.lock(tx, (), ids)
    unnoted, moved, foreign, by_hand = [], [], {}, {}
    rows = tx.rows(_DIGESTS, {"provider": sorted(ids)})
    for key, kept, digest, own_revision, revision, name, is_foreign, otherwise in rows:
        if is_foreign:
            foreign[key] = name
        elif kept is None or own_revision is None or otherwise:
            # In the first round after the upgrade all workers have started since, and have read the present
            # data.
            unnoted.append(key)
        elif kept != digest:
            moved.append(key)
            if own_revision == revision:
                by_hand[key] = name
        elif own_revision != revision:
            unnoted.append(key)
    if unnoted:
        tx.change(_NOTE_DIGESTS, {"provider": unnoted})
    adoption.adopt(tx, foreign)
    for name in foreign.values():
        adoption.log_foreign_write(name)
    # The provider may have been moved out of another tree, which no row shows any more.
    writes.finish(tx, Change(touched=moved, is_unnamed=bool(moved)))
    # During a coexistence the other service may have written this.
    if not by_hand or is_under_way(tx):
        return []
    has_now = _describe_contents(tx, by_hand)
    return [
        f"Resource provider {name} was changed in the database, and searches did not see it; they read it"
        f" again. It has now: {has_now[key]}"
        for key, name in by_hand.items()
    ]


def _describe_contents(tx: Access, ids: Collection[int]) -> Mapping[int, str]:
    found = cloud_rows.contents(tx, ids)
    has: dict[int, list[str]] = {key: [] for key in ids}
    for key, name, *amounts in sorted(found.inventories):
        total, reserved, _, _, _, ratio = amounts[:6]
        has[key].append(f"{name} total {total} reserved {reserved} ratio {ratio:g}")
    for rows, what in ((found.traits, "trait"), (found.aggregates, "aggregate")):
        for key, name in sorted(rows):
            has[key].append(f"{what} {name}")
    return {key: ", ".join(said) or "nothing" for key, said in has.items()}


# The sums of owners

_WRONG_SUMS = CompiledStatement(
    invariants.select_wrong_owner_usages(_within).where(~UNDER_WAY, _BY_ONE_PROCESS)
)


_PLACES_OF_OWNERS = CompiledStatement(
    select(_allocations.c.resource_provider_id)
    .join_from(_allocations, _consumers, _consumers.c.uuid == _allocations.c.consumer_id)
    .where(is_among(_consumers.c.project_id, "project"), is_among(_consumers.c.user_id, "user"))
    .distinct(),
    "project",
    "user",
)


def _show_owners_again(db: Database, wrong: Sequence[Row], options: ScrubOptions) -> None:
    """Let all clients read the trees again in which they have seen other owners.

    :param wrong: rows of ``_WRONG_SUMS``. An owner who got a consumer by hand has sums that are too small.
    """
    gained = [Account(*row[:4]) for row in wrong if row[4] < 0]
    for accounts in batches(gained):
        projects, users = ({each[number] for each in accounts} for number in (0, 1))
        given = {"project": sorted(projects), "user": sorted(users)}
        places = db.read(partial(_read_column, statement=_PLACES_OF_OWNERS, given=given))
        for ids in batches(sorted(places), AT_ONCE):
            db.write(partial(_show_usage_again, ids=ids), wait_s=options.wait_s)


def _show_usage_again(tx: Transaction, ids: Collection[int]) -> None:
    found = [row.id for row in provider_rows.lock(tx, (), ids).values()]
    writes.finish(tx, Change(touched=found, usage_only=True))


def _mend_sums(tx: Transaction, span: Parameters) -> list[str]:
    surplus = invariants.subtract_surplus(tx, _WRONG_SUMS, span)
    by_project: defaultdict[int, list[Account]] = defaultdict(list)
    for account in surplus:
        by_project[account.project_id].append(account)
    projects = named_rows.describe(tx, named_rows.PROJECTS, by_project.keys())
    users = named_rows.describe(tx, named_rows.USERS, {each.user_id for each in surplus})
    types = named_rows.describe(tx, named_rows.TYPES, {each.type_id for each in surplus})
    classes = named_rows.describe(tx, named_rows.CLASSES, {each.class_id for each in surplus})
    types[owner_usage_rows.NO_TYPE] = "unknown"
    classes[owner_usage_rows.CONSUMERS] = "number of consumers"

    def describe(account: Account) -> str:
        owner = f"user {users[account.user_id]}, type {types[account.type_id]}"
        return f"{classes[account.class_id]} of {owner}, by {surplus[account]:+}"

    return [
        f"Usage of project {projects[key]} differed from its allocations: "
        + "; ".join(map(describe, accounts))
        for key, accounts in by_project.items()
    ]


# Rows that should not be there, or lack what they refer to

_parents, _roots = _providers.alias("parent"), _providers.alias("root")
_STRAY: Select[Any] = (
    select(_providers.c.uuid.label("provider"))
    .outerjoin(_parents, _parents.c.id == _providers.c.parent_provider_id)
    .outerjoin(_roots, _roots.c.id == _providers.c.root_provider_id)
    .where(
        or_(
            _roots.c.id.is_(None),
            _roots.c.parent_provider_id.is_not(None),
            _providers.c.parent_provider_id.is_(None) & (_providers.c.root_provider_id != _providers.c.id),
            _providers.c.parent_provider_id.is_not(None)
            & (
                _parents.c.id.is_(None)
                | (func.coalesce(_parents.c.root_provider_id, 0) != _providers.c.root_provider_id)
            ),
        )
    )
)
"""Providers outside the tree of their parent: a range of ids does not contain whole trees."""


@dataclass(frozen=True, eq=False)
class _Rows:
    """An invariant with violations that a range of ids shows."""

    invariant: Invariant
    statement: CompiledStatement

    @classmethod
    def for_invariant(cls, invariant: Invariant, *of_range: ColumnElement[int]) -> "_Rows":
        query = invariant.query.where(*map(_within, of_range), _BY_ONE_PROCESS)
        return cls(invariant, CompiledStatement(query.limit(1)))

    def compare(self, db: Database, span: Parameters, part: Part) -> None:
        """Correct all violations, in any range, if this range has some."""
        def look_here(reader: Access) -> Sequence[object]:
            return reader.rows(self.statement, span)

        # These invariants have few violating rows in total.
        look: Callable[[Access], Sequence[object]] = self.invariant.look or look_here
        if not db.read(look):
            return
        mended = invariants.repair(db, self.invariant)
        if not self.invariant.broken:
            # Groups that have ended leave rows by design: removing those only tidies up. Other groups may
            # have ended meanwhile; a later round removes their rows.
            return
        if mended:
            part.healed["rows"] += mended
            LOG.warning("Not so, and mended: %s (%d rows). %s", self.invariant.name, mended, WARNING)
            if self.invariant is invariants.OWNERS:
                show_all_again(db)
        part.left += _examine(db, self.invariant)


def _examine(db: Database, invariant: Invariant) -> list[invariants.Finding]:
    """Return what is wrong with an invariant; nothing if it holds."""
    found = db.snapshot(partial(invariants.examine, invariant=invariant))
    return [found] if found.count else []


_ROWS_OF_PROVIDERS = (
    _Rows.for_invariant(invariants.CLASSES, _inventories.c.resource_provider_id),
    _Rows.for_invariant(invariants.BARE, _providers.c.id),
    _Rows.for_invariant(invariants.PARTS, lost_rows.WITHOUT_PROVIDER.selected_columns.provider),
    _Rows.for_invariant(invariants.NAMELESS, lost_rows.NAMELESS.selected_columns.provider),
    _Rows(invariants.ROOTS, CompiledStatement(_STRAY.where(_within(_providers.c.id)).limit(1))),
    _Rows(invariants.ROOTLESS, CompiledStatement(_STRAY.where(_within(_providers.c.id)).limit(1))),
)
_ROWS_OF_OWNERS = (
    _Rows.for_invariant(invariants.IDLE, _consumers.c.project_id),
    _Rows.for_invariant(invariants.OWNERS, _consumers.c.project_id),
)
_SLOTS = _Rows.for_invariant(invariants.SLOTS)

_totals = union_all(
    select(
        _inventories.c.resource_class_id.label("class"),
        func.sum(within_reach(_inventories.c.used)).label("amount"),
    ).group_by(_inventories.c.resource_class_id),
    select(_usages.c.resource_class_id, -func.sum(within_reach(_usages.c.used)))
    .where(_usages.c.resource_class_id >= 0)
    .group_by(_usages.c.resource_class_id),
).subquery()
_total = func.sum(_totals.c.amount)
# An allocation that only one of the two tables knows lacks an inventory or a consumer. Looking up each
# allocation would take longer than everything else.
_WITHOUT_CONSUMER = _Rows(
    invariants.WITHOUT_CONSUMER,
    CompiledStatement(
        select(_total).where(_BY_ONE_PROCESS).group_by(_totals.c["class"]).having(_total != 0).limit(1)
    ),
)


@cache
def _list_rows_of_extensions() -> Sequence[_Rows]:
    # The order is reversed: members of groups are removed before groups without members.
    return [_Rows.for_invariant(each) for each in reversed(invariants.list_of_extensions()) if each.repair]


def _compare_rows(kinds: Sequence[_Rows], db: Database, span: Parameters, part: Part) -> None:
    # The other service creates a consumer in one transaction and its allocations in the next.
    if not db.read(is_under_way):
        for each in kinds:
            each.compare(db, span, part)


def _tell(part: Part, what: str, sentences: Collection[str]) -> None:
    if sentences:
        part.healed[what] += len(sentences)
    for sentence in sentences:
        LOG.warning("%s. %s", escape_unprintable(sentence), WARNING)


# The stages


def _compare_providers(db: Database, span: Parameters, part: Part, options: ScrubOptions) -> None:
    found = db.read(lambda reader: reader.rows(_WRONG_USAGE, span))
    wrong = {provider_id for provider_id, is_there in found if is_there}
    is_shared = bool(found) and db.read(is_under_way)
    if is_shared:
        # A corrected counter no longer shows that the other service has just written.
        db.write(state.forget_quiet)
    for ids in batches(sorted(wrong), AT_ONCE):
        _tell(part, "usage", db.write(partial(_mend_counters, ids=ids), wait_s=options.wait_s))
    if not is_shared and not all(is_there for _, is_there in found):
        part.left += _examine(db, invariants.DANGLING)
    unlike = db.read(lambda reader: reader.column(_UNLIKE, span))
    for ids in batches(unlike, AT_ONCE):
        _tell(part, "contents", db.write(partial(_mend_contents, ids=ids), wait_s=options.wait_s))
    if options.thorough or part.healed:
        _compare_rows(_ROWS_OF_PROVIDERS, db, span, part)


def _compare_owners(db: Database, span: Parameters, part: Part, options: ScrubOptions) -> None:
    if wrong := db.read(lambda reader: reader.rows(_WRONG_SUMS, span)):
        # This comes first: if the process dies in between, the wrong sums still show the need.
        _show_owners_again(db, wrong, options)
        _tell(part, "owners", db.write(partial(_mend_sums, span=span), wait_s=options.wait_s))
    if options.thorough or part.healed:
        _compare_rows(_ROWS_OF_OWNERS, db, span, part)


def _compare_others(db: Database, span: Parameters, part: Part, options: ScrubOptions) -> None:
    # The other service does not know the slots, so nothing that it does can look like a missing one.
    _SLOTS.compare(db, span, part)
    kinds = (_WITHOUT_CONSUMER, *(_list_rows_of_extensions() if options.thorough else ()))
    _compare_rows(kinds, db, span, part)


STAGES = (
    Stage("providers", _providers.c.id, 2_000, _compare_providers),
    # The stage walks through consumers, since a project can have one or most of them. It runs less often: it
    # takes as long as all other stages, and a wrong sum bends a quota but never overfills a host.
    Stage("owners", _consumers.c.project_id, 50_000, _compare_owners, every=3),
    # Each small table is one part.
    Stage("others", models.provider_changes.c.slot, BEYOND, _compare_others),
)
"""The stages in the order of a round."""

assert tuple(stage.name for stage in STAGES) == telemetry.SCRUBBED.at_zero, "so they do each stage"


def _read_number(access: Access, statement: CompiledStatement) -> Any:
    return access.value(statement)


def _read_column(access: Access, statement: CompiledStatement, given: Parameters) -> list[Any]:
    return access.column(statement, given)


def scrub_all(
    db: Database, tell_progress: Callable[[str, int, int], object] = lambda what, done, total: None
) -> tuple[Counter[str], list[invariants.Finding]]:
    """Scrub everything once; return the corrections, and the faults that an operator must correct."""
    healed: Counter[str] = Counter()
    left: dict[str, invariants.Finding] = {}
    for stage in STAGES:
        number = CompiledStatement(select(func.count(stage.ids)))
        total = int(db.read(partial(_read_number, statement=number)))
        after: int | None = -BEYOND
        done = 0
        while after is not None:
            part = stage.go_on(db, after, stage.size, ScrubOptions(thorough=True, wait_s=None))
            after = part.last
            done += part.rows
            healed += part.healed
            left |= {found.invariant.name: found for found in part.left}
            tell_progress(stage.name, done, max(done, total))
    db.write(scrub_rows.note_round)
    return healed, list(left.values())


def show_all_again(db: Database) -> None:
    """Let all followers, and clients with a tag of a tree, read again which consumers are on which provider.

    Trees show names of projects and users, ends of holds, groups and generations of consumers. Their earlier
    values are not known, and a statement by hand can have changed any of them.
    """
    after: int | None = -BEYOND
    while after is not None:
        ids = db.read(partial(_read_column, statement=_NEXT_WITH_ALLOCATIONS, given={"after": after}))
        if ids:
            db.write(partial(_show_usage_again, ids=ids))
        after = ids[-1] if len(ids) == AT_ONCE else None


_NEXT_WITH_ALLOCATIONS = CompiledStatement(
    select(_allocations.c.resource_provider_id)
    .where(_allocations.c.resource_provider_id > bindparam("after"))
    .distinct()
    .order_by(_allocations.c.resource_provider_id)
    .limit(AT_ONCE)
)
