"""Statements that go to the driver directly, and those who want to hear of them."""

import logging
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import datetime
from typing import Any

import pytest
from sqlalchemy import (
    BigInteger,
    Double,
    Integer,
    bindparam,
    cast,
    delete,
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
from placement.errors import ObjectsChanged
from tests.support.databases import KINDS, scratch_database
from tests.support.recorder import first_words, recorded

TRAITS = models.traits
MOMENT = datetime(2026, 5, 4, 3, 2, 1)
ADD = Ready(
    text("INSERT INTO traits (name, created_at) VALUES (:name, :moment)").bindparams(
        bindparam("name", type_=TRAITS.c.name.type),
        bindparam("moment", type_=TRAITS.c.created_at.type),
    )
)
REMOVE = Ready(delete(TRAITS).where(TRAITS.c.name == bindparam("name")))
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
def test_numbers_are_the_same_however_they_travel(db: Database, repeats: int, truth: Any) -> None:
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

    def note(cursor: Any, statement: str | bytes, *given: Any) -> None:
        sent.extend(first_words(statement))
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
    assert "INSERT INTO traits" in heard[0][1]
    assert "CUSTOM_A" not in heard[0][1]
    assert sent in (["BEGIN", "INSERT", "ROLLBACK"], ["START", "INSERT", "ROLLBACK"])
    assert len(read(db)) == 1
    assert add(db, f"CUSTOM_{len(heard)}") == 1


@pytest.fixture
def sent(db: Database) -> Iterator[list[list[str]]]:
    """Return the first words of what reaches the driver, message by message."""
    run = db.engine.dialect.do_execute
    messages: list[list[str]] = []

    def note(cursor: Any, statement: str | bytes, *given: Any) -> None:
        messages.append(first_words(statement))
        run(cursor, statement, *given)

    db.engine.dialect.do_execute = note  # type: ignore[method-assign]
    yield messages
    db.engine.dialect.do_execute = run  # type: ignore[method-assign]


def given(name: str) -> dict[str, Any]:
    return {"name": name, "moment": MOMENT}


def look_then_add(db: Database, *names: str) -> None:
    """Read one trait, then insert others, with nobody waiting for an answer."""

    def work(tx: Transaction) -> None:
        tx.rows(FIND, {"name": "CUSTOM_A"})
        for name in names:
            tx.change_later(ADD, given(name), finds=1)

    db.write(work)


def test_what_may_wait_travels_with_the_next(db: Database, sent: list[list[str]]) -> None:
    """Where the driver takes several at once; one after the other for those who listen.

    COMMIT waits where it is the driver that counts rows.
    """
    look_then_add(db, "CUSTOM_ONE", "CUSTOM_TWO")
    direct, sent[:] = sent[:], []
    with recorded(db):
        look_then_add(db, "CUSTOM_THREE", "CUSTOM_FOUR")

    begin = "START" if db.dialect == "mysql" else "BEGIN"
    alone = [[begin], ["SELECT"], ["INSERT"], ["INSERT"], ["COMMIT"]]
    assert direct == {
        "sqlite": alone,
        "postgresql": [["BEGIN", "SELECT"], ["WITH", "WITH", "COMMIT"]],
        "mysql": [["START", "SELECT"], ["INSERT", "INSERT"], ["COMMIT"]],
    }[db.dialect]
    assert sent == alone
    for name in ("ONE", "TWO", "THREE", "FOUR"):
        assert len(read(db, f"CUSTOM_{name}")) == 1


def test_commit_travels_alone_where_nothing_was_heard_before(
    db: Database, sent: list[list[str]]
) -> None:
    """A pooled connection that was cut is found out by what can be repeated."""
    db.write(lambda tx: tx.change_later(ADD, given("CUSTOM_UNHEARD")))

    assert sent[-1] == ["COMMIT"]
    assert len(read(db, "CUSTOM_UNHEARD")) == 1


def test_the_next_statement_sees_what_waited(db: Database) -> None:
    def work(tx: Transaction) -> tuple[int, Any]:
        tx.change_later(ADD, given("CUSTOM_SEEN"))
        seen = len(tx.rows(FIND, {"name": "CUSTOM_SEEN"}))
        tx.change_later(ADD, given("CUSTOM_COUNTED"))
        return seen, tx.scalar(select(func.count()).where(TRAITS.c.name == "CUSTOM_COUNTED"))

    assert db.write(work) == (1, 1)


@pytest.mark.parametrize("is_watched", [False, True])
@pytest.mark.parametrize("then", ["commit", "rows", "execute"])
def test_another_number_of_rows_than_must_be_found_begins_again(
    db: Database, then: str, is_watched: bool
) -> None:
    """Whatever comes next, and whether it waits or not; nothing is written."""
    attempts: list[int] = []

    def work(tx: Transaction) -> None:
        attempts.append(tx.attempt)
        tx.rows(FIND, {"name": "CUSTOM_A"})
        tx.change_later(ADD, given("CUSTOM_LOST"), finds=1)
        tx.change_later(REMOVE, {"name": "CUSTOM_NOBODY"}, finds=1)
        if then == "rows":
            tx.rows(FIND, {"name": "CUSTOM_A"})
        elif then == "execute":
            tx.scalar(select(1))

    patient = Database(db.engine, attempts=lambda: 2)
    with recorded(db) if is_watched else nullcontext(), pytest.raises(ObjectsChanged):
        patient.write(work)

    assert attempts == [1, 2]
    assert read(db, "CUSTOM_LOST") == []


def test_a_value_that_looks_like_sql_travels_as_it_is(db: Database) -> None:
    """Several statements are put together as text."""
    odd = ["100%; it's %s %(name)s \\' -- :name $1 ?", "\N{SNOWMAN}; COMMIT; \\", '"%%"']
    odd += ["CUSTOM_9-a", "CUSTOM_9-a\n", "", "'", "\\", "\N{ARABIC-INDIC DIGIT ONE}", "a\x1ab"]

    look_then_add(db, *odd)

    assert [read(db, name)[0][0] for name in odd] == odd


@pytest.mark.parametrize("number", [0, 7, -7, 2**62, -(2**62), None, 0.5, -0.5])
def test_a_number_is_the_same_in_a_message_of_several(db: Database, number: Any) -> None:
    kind = Double if isinstance(number, float) else BigInteger
    taken = Ready(select(literal(1, kind) - bindparam("number", type_=kind), literal("-1\\")))

    def work(tx: Transaction) -> tuple[Any, Any]:
        alone = tx.rows(taken, {"number": number})
        tx.change_later(REMOVE, {"name": "CUSTOM_NOBODY"})
        return alone, tx.rows(taken, {"number": number})

    alone, together = db.write(work)
    assert list(alone) == list(together) == [(None if number is None else 1 - number, "-1\\")]


@pytest.mark.parametrize("db", ["postgresql", "mysql"], indirect=True)
def test_each_statement_travels_alone_where_that_is_forbidden(
    db: Database, sent: list[list[str]]
) -> None:
    separate = "&" if db.engine.url.query else "?"
    url = db.engine.url.render_as_string(hide_password=False)
    alone = Database(make_engine(f"{url}{separate}multi_statements=0"))
    run = db.engine.dialect.do_execute
    alone.engine.dialect.do_execute = run  # type: ignore[method-assign]
    look_then_add(alone, "CUSTOM_ALONE")
    alone.dispose()

    # What SQLAlchemy asks a new connection comes before.
    assert sent[-3:] == [["SELECT"], ["INSERT"], ["COMMIT"]]
    assert len(read(db, "CUSTOM_ALONE")) == 1


def test_a_statement_counts_whatever_it_travels_with(db: Database) -> None:
    """The log and the metrics say how many statements a request has sent."""

    def counted(name: str) -> int:
        trace = telemetry.begin()
        try:
            look_then_add(db, name)
        finally:
            telemetry.end()
        return trace.statements

    with recorded(db):
        watched = counted("CUSTOM_COUNTED_ONE")
    assert counted("CUSTOM_COUNTED_TWO") == watched == 4


def test_a_statement_that_waited_and_fails_is_rolled_back(
    db: Database, sent: list[list[str]]
) -> None:
    with pytest.raises(exc.IntegrityError):
        look_then_add(db, "CUSTOM_BEFORE", "CUSTOM_A")

    assert sent[-1] == ["ROLLBACK"]
    assert len(read(db)) == 1
    assert read(db, "CUSTOM_BEFORE") == []


def test_what_was_never_sent_is_not_rolled_back(db: Database, sent: list[list[str]]) -> None:
    """An error before the first statement leaves the connection as it is."""

    def fail(tx: Transaction) -> None:
        tx.change_later(ADD, given("CUSTOM_NEVER"))
        raise LookupError

    with pytest.raises(LookupError):
        db.write(fail)

    if db.dialect != "sqlite":
        assert sent == []
    assert read(db, "CUSTOM_NEVER") == []


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
