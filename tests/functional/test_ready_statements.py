"""Statements that go to the driver directly, and those who want to hear of them."""

import logging
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from sqlalchemy import (
    BigInteger,
    Double,
    Integer,
    bindparam,
    cast,
    event,
    exc,
    func,
    literal,
    literal_column,
    null,
    select,
    text,
    union_all,
)

from placement import telemetry
from placement.db import coexistence_rows, models, ready, schema
from placement.db.database import Database, Transaction
from placement.db.engine import make_engine
from placement.db.ready import Ready
from tests.support.databases import KINDS, scratch_database
from tests.support.recorder import recorded

TRAITS = models.traits
MOMENT = datetime(2026, 5, 4, 3, 2, 1)
ADD = Ready(
    text("INSERT INTO traits (name, created_at) VALUES (:name, :moment)").bindparams(
        bindparam("name", type_=TRAITS.c.name.type),
        bindparam("moment", type_=TRAITS.c.created_at.type),
    )
)
FIND = Ready(
    select(
        TRAITS.c.name, TRAITS.c.created_at, literal("50% more"), ~coexistence_rows.UNDER_WAY
    ).where(TRAITS.c.name == bindparam("name"))
)


NUMBERS = (
    literal_column("-9223372036854775807", BigInteger),
    literal_column("9223372036854775807", BigInteger),
    cast(null(), Integer),
    func.coalesce(cast(null(), Integer), 0),
)


@pytest.fixture(scope="module", params=KINDS)
def db(request: pytest.FixtureRequest) -> Iterator[Database]:
    """Return a database with its schema and one trait."""
    with scratch_database(request.param) as url:
        found = Database(make_engine(url))
        schema.sync(found)
        add(found, "CUSTOM_A")
        yield found
        found.dispose()


def add(db: Database, name: str) -> int:
    """Insert a trait; return the number of rows."""
    return db.write(lambda tx: tx.change(ADD, {"name": name, "moment": MOMENT}))


def read(db: Database, name: str = "CUSTOM_A") -> list[Any]:
    """Return the rows that there are of a trait."""
    return list(db.read(lambda reader: reader.rows(FIND, {"name": name})))


def test_rows_are_the_same_for_those_who_listen(db: Database) -> None:
    direct = read(db)

    with recorded(db) as statements:
        watched = read(db)

    assert direct == watched == [("CUSTOM_A", MOMENT, "50% more", True)]
    assert [type(value) for value in direct[0]] == [str, datetime, str, bool]
    assert len(statements) == 1


@pytest.mark.parametrize("truth", [TRAITS.c.id > 0, coexistence_rows.UNDER_WAY])
@pytest.mark.parametrize("repeats", [1, 2])
def test_numbers_are_the_same_however_they_travel(
    db: Database, repeats: int, truth: Any
) -> None:
    """PyMySQL gets those of a row as one text; missing ones, large ones, and what stands between them."""
    one = select(TRAITS.c.id, TRAITS.c.name, *NUMBERS, truth, literal_column("0.1", Double))
    one = one.where(TRAITS.c.name == "CUSTOM_A")
    asked = Ready(one if repeats == 1 else union_all(*[one] * repeats))

    direct = db.read(lambda reader: reader.rows(asked))
    with recorded(db):
        watched = db.read(lambda reader: reader.rows(asked))

    assert list(direct) == list(watched)
    ((trait_id, *rest), *_) = direct
    is_true = truth is not coexistence_rows.UNDER_WAY
    assert rest == ["CUSTOM_A", -(2**63) + 1, 2**63 - 1, None, 0, is_true, 0.1]
    assert [type(value) for value in (trait_id, *rest[1:3], rest[5])] == [int, int, int, bool]
    assert len(direct) == repeats


def test_the_log_of_sqlalchemy_shows_every_statement(
    db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    assert ready.nobody_listens(db.engine)
    with caplog.at_level(logging.INFO, "sqlalchemy.engine.Engine"):
        assert not ready.nobody_listens(db.engine)


def test_an_error_is_the_one_that_sqlalchemy_raises_and_nothing_runs_twice(db: Database) -> None:
    """What SQLAlchemy does after an error it does: its listeners hear of it, once."""
    heard: list[Any] = []
    sent: list[str] = []
    run = db.engine.dialect.do_execute

    def hear(context: Any) -> None:
        heard.append((context.original_exception, context.statement))

    def note(cursor: Any, statement: str, *given: Any) -> None:
        sent.append(statement.split()[0])
        run(cursor, statement, *given)

    event.listen(db.engine, "handle_error", hear)
    db.engine.dialect.do_execute = note  # type: ignore[method-assign]
    try:
        with pytest.raises(exc.IntegrityError) as caught:
            add(db, "CUSTOM_A")
    finally:
        db.engine.dialect.do_execute = run  # type: ignore[method-assign]
        event.remove(db.engine, "handle_error", hear)

    assert [original for original, _ in heard] == [caught.value.orig]
    assert heard[0][1].startswith("INSERT INTO traits")
    assert sent in (["BEGIN", "INSERT", "ROLLBACK"], ["START", "INSERT", "ROLLBACK"])
    assert len(read(db)) == 1
    assert add(db, f"CUSTOM_{len(heard)}") == 1


def finish(db: Database, name: str) -> None:
    """Insert a trait as the last thing of a transaction."""
    db.write(lambda tx: tx.finish(ADD, {"name": name, "moment": MOMENT}))


@pytest.fixture
def sent(db: Database) -> Iterator[list[str]]:
    """Return what reaches the driver."""
    run = db.engine.dialect.do_execute
    texts: list[str] = []

    def note(cursor: Any, statement: str, *given: Any) -> None:
        texts.append(statement)
        run(cursor, statement, *given)

    db.engine.dialect.do_execute = note  # type: ignore[method-assign]
    yield texts
    db.engine.dialect.do_execute = run  # type: ignore[method-assign]


def test_the_last_statement_travels_with_the_commit(db: Database, sent: list[str]) -> None:
    """To PostgreSQL, whose driver takes two at once; one after the other for those who listen."""
    finish(db, "CUSTOM_LAST")
    direct, sent[:] = len(sent), []
    with recorded(db):
        finish(db, "CUSTOM_WATCHED")

    assert direct == (2 if db.dialect == "postgresql" else 3)
    assert [text.split()[0] for text in sent[1:]] == ["INSERT", "COMMIT"]
    assert len(read(db, "CUSTOM_LAST")) == len(read(db, "CUSTOM_WATCHED")) == 1


def test_a_statement_counts_whatever_it_travels_with(db: Database) -> None:
    """The log and the metrics say how many statements a request has sent."""

    def counted(name: str) -> int:
        trace = telemetry.begin()
        try:
            finish(db, name)
        finally:
            telemetry.end()
        return trace.statements

    with recorded(db):
        watched = counted("CUSTOM_COUNTED")
    assert counted("CUSTOM_COUNTED_TOO") == watched == 3


def test_a_last_statement_that_fails_is_rolled_back(db: Database, sent: list[str]) -> None:
    with pytest.raises(exc.IntegrityError):
        finish(db, "CUSTOM_A")

    assert sent[-1] == "ROLLBACK"
    assert len(read(db)) == 1


def test_nothing_comes_after_the_last_statement(db: Database) -> None:
    """It may not have been sent yet: nothing could see what it writes."""

    def go_on(tx: Transaction) -> None:
        tx.finish(ADD, {"name": "CUSTOM_TOO_EARLY", "moment": MOMENT})
        tx.rows(FIND, {"name": "CUSTOM_TOO_EARLY"})

    with pytest.raises(RuntimeError, match="last statement"):
        db.write(go_on)

    assert read(db, "CUSTOM_TOO_EARLY") == []


def test_a_connection_that_an_exit_interrupts_is_given_up(db: Database) -> None:
    """Its answer may still be on the way; nobody else shall read it."""

    class Stop(KeyboardInterrupt):
        pass

    run = db.engine.dialect.do_execute

    def stop(*_: Any) -> None:
        db.engine.dialect.do_execute = run  # type: ignore[method-assign]
        raise Stop

    given_up: list[Any] = []
    event.listen(db.engine, "invalidate", lambda *given: given_up.append(given))
    db.engine.dialect.do_execute = stop  # type: ignore[method-assign]
    with pytest.raises(Stop):
        read(db)

    assert len(given_up) == 1
    assert len(read(db)) == 1


def test_a_list_that_expands_goes_the_way_of_sqlalchemy(db: Database) -> None:
    among = Ready(
        select(TRAITS.c.name).where(TRAITS.c.name.in_(bindparam("names", expanding=True)))
    )
    found = db.read(lambda reader: reader.rows(among, {"names": ["CUSTOM_A", "CUSTOM_NONE"]}))
    assert list(found) == [("CUSTOM_A",)]
