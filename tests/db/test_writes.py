"""Every write ends with ``finish``: a write that forgets it is undone, and nobody else does what it does."""

import ast
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, false, update

import placement
from placement.db import change_rows, models, statements, writes
from placement.db.change import Change
from placement.db.database import Database, Transaction
from placement.db.statements import CompiledStatement, Statement
from placement.objects import allocation, inventory, resource_provider, trait
from placement.objects.replacement import ConsumerChange
from tests.support.databases import synced
from tests.support.effort import in_one_process
from tests.support.hosts import add_host

PACKAGE = Path(placement.__file__).parent
SERVER = "6b0e5c5e-0b9b-4e6c-9d0c-8f0d1f9d0000"
TRAIT = "HW_CPU_X86_AVX"
Write = Callable[[Transaction], object]


@pytest.fixture(scope="module", params=in_one_process("writes", "sqlite"))
def db(request: pytest.FixtureRequest) -> Iterator[Database]:
    with synced(request.param) as made:
        host = add_host(made, VCPU=8)
        claim = ConsumerChange(SERVER, {host: {"VCPU": 1}}, "p", "u", generation=None)
        allocation.replace_allocations(made, allocation.AllocationChange.of_one(claim))
        resource_provider.replace_aggregates(made, host, [SERVER], generation=None)
        generation = resource_provider.show(made, host).generation
        trait.replace_of_provider(made, host, [TRAIT], generation=generation)
        yield made


def list_writes() -> Iterator[Any]:
    """Yield writes of each table of the API, in each way in which a statement is sent."""
    for name in sorted(models.SHOWN):
        table = models.whole_metadata().tables[name]
        changed = update(table).values({table.c.updated_at: table.c.updated_at})
        ways: dict[str, Write] = {
            "built": lambda tx, each=changed: tx.change(each),
            "compiled": lambda tx, each=changed: tx.change(CompiledStatement(each)),
            "given": lambda tx, each=changed: tx.change(Statement(CompiledStatement(each))),
            "queued": lambda tx, each=changed: tx.change_later(CompiledStatement(each)),
        }
        yield from (pytest.param(name, way, id=f"{name}-{how}") for how, way in ways.items())


@pytest.mark.parametrize(("table", "write"), list_writes())
def test_a_write_that_does_not_finish_is_undone(db: Database, table: str, write: Write) -> None:
    with pytest.raises(RuntimeError, match=f"^{table} was changed without placement.db.writes.finish$"):
        db.write(write)


def test_an_insert_that_does_not_finish_is_undone(db: Database) -> None:
    row = {"uuid": "6b0e5c5e-0b9b-4e6c-9d0c-8f0d1f9d0001", "name": "h", "generation": 0, "revision": 1}

    for send in (Transaction.insert, Transaction.insert_later, Transaction.insert_free):
        with pytest.raises(RuntimeError, match="resource_providers was changed"):
            db.write(lambda tx, send=send: send(tx, models.resource_providers, [row]))

    assert db.read(lambda tx: tx.rows(_named(row["uuid"]))) == []


def test_a_change_after_the_end_counts_too(db: Database) -> None:
    made = add_host(db, VCPU=8)
    again = update(models.inventories).values(total=8, updated_at=None)

    def write(tx: Transaction) -> None:
        writes.finish(tx, Change(touched=[resource_provider.lock_one(tx, made).id]))
        tx.change(again)

    with pytest.raises(RuntimeError, match="inventories was changed"):
        db.write(write)


def test_a_statement_that_finds_no_row_needs_no_end(db: Database) -> None:
    for name in models.SHOWN:
        nothing = delete(models.whole_metadata().tables[name]).where(false())
        db.write(partial(Transaction.change, statement=nothing))


def test_columns_of_our_own_and_other_tables_need_no_end(db: Database) -> None:
    providers, slots = models.resource_providers, models.provider_changes

    noted = update(providers).values(
        own_generation=providers.c.generation, updated_at=providers.c.updated_at
    )

    db.write(lambda tx: tx.change_unshown(noted))
    db.write(lambda tx: tx.change(update(slots).where(slots.c.slot == -1).values(recent="")))


class CountingWatcher:
    """A watcher that notes what it is given."""

    def __init__(self) -> None:
        self.taken: list[tuple[Collection[str], ...]] = []
        self.changes: list[Change] = []

    def take(self, tx: Transaction, *names: Collection[str]) -> Callable[[Change], object]:
        self.taken.append(tuple(sorted(each) for each in names))
        return self.changes.append


def test_a_watcher_sees_each_write_before_and_after(db: Database) -> None:
    host, server = add_host(db, VCPU=8), "6b0e5c5e-0b9b-4e6c-9d0c-8f0d1f9d0002"
    claim = ConsumerChange(server, {host: {"VCPU": 2}}, "p", "u", generation=None)
    watcher = CountingWatcher()
    db.watchers = (watcher,)
    try:
        allocation.replace_allocations(db, allocation.AllocationChange.of_one(claim))
        allocation.delete_allocations(db, server)
        generation = resource_provider.show(db, host).generation
        trait.replace_of_provider(db, host, [TRAIT], generation=generation)
        inventory.delete_all(db, host)
        resource_provider.delete(db, host)
    finally:
        db.watchers = ()

    new, old = ([], [], [server]), ([], [server], [])
    assert watcher.taken == [new, old, *[([host], [], [])] * 3]
    made, removed, *others = watcher.changes
    assert made.consumers[server].held == {host: {"VCPU": 2}}
    assert removed.consumers[server].held == {}
    assert [bool(each.stepped) for each in others] == [True, True, False]
    assert others[-1].left is not None and others[-1].left.root_uuid == host


def _named(uuid: str) -> Any:
    table = models.resource_providers
    return table.select().where(table.c.uuid == uuid)


# -- the source ----------------------------------------------------------------------------------

ONLY_FINISH_CALLS = {change_rows.note.__name__, change_rows.note_unnamed.__name__}


def test_only_finish_writes_the_log() -> None:
    """No other module calls what ``finish`` calls."""
    callers = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and node.attr in ONLY_FINISH_CALLS
        and isinstance(node.value, ast.Name)
        and node.value.id == "change_rows"
    }
    assert callers == {"db/writes.py"}


def test_only_finish_adds_to_the_sums_of_owners() -> None:
    """The table is written nowhere else, but for what mends it."""
    writers = {
        path.relative_to(PACKAGE).as_posix()
        for path in (PACKAGE / "db").glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute | ast.Name)
        and getattr(node.func, "attr", getattr(node.func, "id", "")).startswith(("insert", "update"))
        and any("owner_usages" in ast.unparse(each) for each in node.args)
    }
    assert writers == {"db/writes.py"}


def test_every_statement_knows_its_table() -> None:
    for name in models.SHOWN:
        table = models.whole_metadata().tables[name]
        row = {next(iter(table.c)).name: 1}
        assert statements.find_shown_table(statements.insert_of(table, [row])) == name
        assert statements.find_shown_table(delete(table)) == name
    assert statements.find_shown_table(delete(models.owner_usages)) == ""
    assert statements.find_shown_table(models.inventories.select()) == ""
