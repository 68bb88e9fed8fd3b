"""The one way of a statement to the database, and those that watch it."""

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
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
)

from placement import telemetry
from placement.db import models, statements
from placement.db.coexistence import state
from placement.db.database import Database, Transaction
from placement.db.engine import make_engine
from placement.db.statements import CompiledStatement
from placement.db.transport import Message, Observer
from placement.errors import ObjectsChanged, Unavailable
from tests.support.databases import ROUTES, opened, synced
from tests.support.effort import in_one_process
from tests.support.recorder import (
    Execute,
    Hook,
    first_words,
    messages,
    observed,
    recorded,
    replaced_driver,
)

TRAITS = models.traits
MOMENT = datetime(2026, 5, 4, 3, 2, 1)
FOR_EVER_S = 60
ADD = CompiledStatement(
    text("INSERT INTO traits (name, created_at) VALUES (:name, :moment)").bindparams(
        bindparam("name", type_=TRAITS.c.name.type),
        bindparam("moment", type_=TRAITS.c.created_at.type),
    )
)
REMOVE = CompiledStatement(delete(TRAITS).where(TRAITS.c.name == bindparam("name")))
REMOVE_BOTH = CompiledStatement(
    delete(TRAITS).where(TRAITS.c.name.in_([literal("CUSTOM_A"), literal("CUSTOM_LOST")]))
)
FIND = CompiledStatement(
    select(
        TRAITS.c.name, TRAITS.c.created_at, literal("50% more"), ~state.UNDER_WAY
    ).where(TRAITS.c.name == bindparam("name"))
)


NUMBERS = (
    literal_column("-9223372036854775807", BigInteger),
    literal_column("9223372036854775807", BigInteger),
    cast(null(), Integer),
    func.coalesce(cast(null(), Integer), 0),
)


DRIVERS = in_one_process("drivers", *(route for route in ROUTES if not route.endswith("-alone")))
of_servers = pytest.mark.parametrize("db", DRIVERS[1:], indirect=True)


@pytest.fixture(scope="module", params=DRIVERS)
def db(request: pytest.FixtureRequest) -> Iterator[Database]:
    """Return a database with its schema and one trait."""
    with synced(request.param) as found:
        add(found, "CUSTOM_A")
        yield found


def add(db: Database, name: str) -> int:
    """Insert a trait; return the number of rows."""
    return db.write(lambda tx: tx.change(ADD, {"name": name, "moment": MOMENT}))


def read(db: Database, name: str = "CUSTOM_A") -> list[Any]:
    """Return the rows that there are of a trait."""
    return list(db.read(lambda reader: reader.rows(FIND, {"name": name})))


def test_rows_are_converted(db: Database) -> None:
    with recorded(db) as statements:
        found = read(db)

    assert found == read(db) == [("CUSTOM_A", MOMENT, "50% more", True)]
    assert [type(value) for value in found[0]] == [str, datetime, str, bool]
    assert len(statements) == 1


@pytest.mark.parametrize("truth", [TRAITS.c.id > 0, state.UNDER_WAY])
@pytest.mark.parametrize("is_kept", [False, True])
def test_numbers_come_back_as_they_are(db: Database, is_kept: bool, truth: Any) -> None:
    """Missing ones and large ones; of a statement that is compiled once or each time."""
    one = select(TRAITS.c.id, TRAITS.c.name, *NUMBERS, truth, literal_column("0.1", Double))
    one = one.where(TRAITS.c.name == "CUSTOM_A")

    ((trait_id, *rest),) = db.read(
        lambda reader: reader.rows(CompiledStatement(one) if is_kept else one)
    )

    is_true = truth is not state.UNDER_WAY
    assert rest == ["CUSTOM_A", -(2**63) + 1, 2**63 - 1, None, 0, is_true, 0.1]
    assert [type(value) for value in (trait_id, *rest[1:3], rest[5])] == [int, int, int, bool]


def test_the_log_of_sqlalchemy_shows_every_statement_and_its_values(
    db: Database, caplog: pytest.LogCaptureFixture, sent: list[list[str]]
) -> None:
    look_then_add(db, "CUSTOM_QUIET")
    quiet, sent[:] = sent[:], []
    with caplog.at_level(logging.INFO, "sqlalchemy.engine.Engine"):
        look_then_add(db, "CUSTOM_LOGGED")

    assert sent == quiet
    for words in ("SELECT traits.name", "INSERT INTO traits", "COMMIT", "CUSTOM_LOGGED"):
        assert words in caplog.text
    assert "Row (" not in caplog.text


def test_the_log_keeps_values_to_itself_where_they_are_hidden(
    db: Database, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(db.engine, "hide_parameters", True)
    with caplog.at_level(logging.INFO, "sqlalchemy.engine.Engine"):
        read(db)

    assert "SQL parameters hidden" in caplog.text
    assert "CUSTOM_A" not in caplog.text


def test_the_log_shows_rows_at_its_most_talkative(
    db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "sqlalchemy.engine.Engine"):
        read(db)

    assert "Row ('CUSTOM_A'" in caplog.text


def test_an_error_is_the_one_that_sqlalchemy_raises_and_nothing_runs_twice(db: Database) -> None:
    """What SQLAlchemy does after an error it does: its listeners hear of it, once."""
    heard: list[Any] = []
    sent: list[str] = []

    def hear(context: Any) -> None:
        heard.append((context.original_exception, context.statement))

    def note(execute: Execute, cursor: Any, statement: str | bytes, parameters: Any) -> None:
        sent.extend(first_words(statement))
        execute(cursor, statement, parameters)

    event.listen(db.engine, "handle_error", hear)
    try:
        with replaced_driver(db, note), pytest.raises(exc.IntegrityError) as caught:
            add(db, "CUSTOM_A")
    finally:
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
    with driven(db) as messages:
        yield messages


@contextmanager
def driven(db: Database) -> Iterator[list[list[str]]]:
    """Yield a list that fills with the first words of what reaches the driver."""
    messages: list[list[str]] = []

    def note(execute: Execute, cursor: Any, statement: str | bytes, parameters: Any) -> None:
        messages.append(first_words(statement))
        execute(cursor, statement, parameters)

    with replaced_driver(db, note):
        yield messages


def given(name: str) -> dict[str, Any]:
    return {"name": name, "moment": MOMENT}


def look_then_add(db: Database, *names: str) -> None:
    """Read one trait, then insert others, with nobody waiting for an answer."""

    def work(tx: Transaction) -> None:
        tx.rows(FIND, {"name": "CUSTOM_A"})
        for name in names:
            tx.change_later(ADD, given(name), expected_rows=1)

    db.write(work)


def test_what_may_wait_travels_with_the_next(db: Database, sent: list[list[str]]) -> None:
    """Where the driver takes several at once, whether or not somebody watches.

    COMMIT waits where it is the driver that counts rows.
    """
    look_then_add(db, "CUSTOM_ONE", "CUSTOM_TWO")
    quiet, sent[:] = sent[:], []
    with messages(db) as told:
        look_then_add(db, "CUSTOM_THREE", "CUSTOM_FOUR")

    begin = "START" if db.dialect == "mysql" else "BEGIN"
    assert quiet == {
        "sqlite": [[begin], ["SELECT"], ["INSERT"], ["INSERT"], ["COMMIT"]],
        "postgresql": [["BEGIN", "SELECT"], ["WITH", "WITH", "COMMIT"]],
        "mysql": [["START", "SELECT"], ["INSERT", "INSERT"], ["COMMIT"]],
    }[db.dialect]
    assert sent == quiet
    assert [first_words(message.text) for message in told] == quiet
    words = [[each.text.split()[0] for each in message.statements] for message in told]
    assert words == quiet
    for name in ("ONE", "TWO", "THREE", "FOUR"):
        assert len(read(db, f"CUSTOM_{name}")) == 1


def test_what_waited_is_sent_before_a_long_list(db: Database) -> None:
    """A list of any length is one parameter: no statement has a way of its own."""
    names = [f"CUSTOM_LISTED_{number}" for number in range(2000)]
    among = CompiledStatement(select(TRAITS.c.name).where(statements.is_among(TRAITS.c.name, "names")))

    def work(tx: Transaction) -> tuple[Any, int]:
        tx.change_later(ADD, given("CUSTOM_LISTED_1234"), expected_rows=1)
        found = tx.rows(among, {"names": names})
        tx.change_later(ADD, given("CUSTOM_LISTED_1235"), expected_rows=1)
        return found, tx.change(delete(TRAITS).where(statements.is_one_of(TRAITS.c.name, names)))

    found, deleted = db.write(work)
    assert list(found) == [("CUSTOM_LISTED_1234",)]
    assert deleted == 2


@pytest.mark.parametrize("size", [0, 1, 33])
def test_a_list_holds_what_it_holds(db: Database, size: int) -> None:
    names = ["CUSTOM_A", "it's %s \\", *map(str, range(size))][:size]
    found = select(TRAITS.c.name).where(statements.is_one_of(TRAITS.c.name, names))
    assert db.read(lambda reader: reader.column(found)) == ["CUSTOM_A"][:size]


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
        return seen, tx.value(select(func.count()).where(TRAITS.c.name == "CUSTOM_COUNTED"))

    assert db.write(work) == (1, 1)


FEW, MANY = (REMOVE, {"name": "CUSTOM_NOBODY"}), (REMOVE_BOTH, {})


@pytest.mark.parametrize("statement", [FEW, MANY], ids=["too few", "too many"])
@pytest.mark.parametrize("then", ["commit", "rows", "built"])
def test_another_number_of_rows_than_expected_begins_again(
    db: Database, then: str, statement: tuple[CompiledStatement, dict[str, Any]]
) -> None:
    """Whatever comes next, and whether it waits or not; nothing is written."""
    attempts: list[int] = []

    def work(tx: Transaction) -> None:
        attempts.append(tx.attempt)
        tx.rows(FIND, {"name": "CUSTOM_A"})
        tx.change_later(ADD, given("CUSTOM_LOST"), expected_rows=1)
        tx.change_later(*statement, expected_rows=1)
        if then == "rows":
            tx.rows(FIND, {"name": "CUSTOM_A"})
        elif then == "built":
            tx.value(select(1))

    patient = Database(db.engine, attempts=lambda: 2)
    with pytest.raises(ObjectsChanged):
        patient.write(work)

    assert attempts == [1, 2]
    assert read(db, "CUSTOM_LOST") == []
    assert len(read(db)) == 1


def test_a_value_that_looks_like_sql_travels_as_it_is(db: Database) -> None:
    """Several statements are put together as text."""
    odd = ["100%; it's %s %(name)s \\' -- :name $1 ?", "\N{SNOWMAN}; COMMIT; \\", '"%%"']
    odd += ["CUSTOM_9-a", "CUSTOM_9-a\n", "", "'", "\\", "\N{ARABIC-INDIC DIGIT ONE}", "a\x1ab"]

    look_then_add(db, *odd)

    assert [read(db, name)[0][0] for name in odd] == odd


@pytest.mark.parametrize("number", [0, 7, -7, 2**62, -(2**62), None, 0.5, -0.5])
def test_a_number_is_the_same_in_a_message_of_several(db: Database, number: Any) -> None:
    kind = Double if isinstance(number, float) else BigInteger
    taken = CompiledStatement(select(literal(1, kind) - bindparam("number", type_=kind), literal("-1\\")))

    def work(tx: Transaction) -> tuple[Any, Any]:
        alone = tx.rows(taken, {"number": number})
        tx.change_later(REMOVE, {"name": "CUSTOM_NOBODY"})
        return alone, tx.rows(taken, {"number": number})

    alone, together = db.write(work)
    assert list(alone) == list(together) == [(None if number is None else 1 - number, "-1\\")]


def test_a_negative_number_stands_apart_from_a_sign(db: Database) -> None:
    """Two signs in a row begin a comment."""
    taken = CompiledStatement(text("SELECT 5 -:number"))

    def work(tx: Transaction) -> Any:
        tx.change_later(REMOVE, {"name": "CUSTOM_NOBODY"})
        return tx.value(taken, {"number": -7})

    assert db.write(work) == 12


@of_servers
def test_each_statement_travels_alone_where_that_is_forbidden(db: Database) -> None:
    url = db.engine.url.update_query_dict({"multi_statements": "0"})
    with opened(url.render_as_string(hide_password=False)) as alone, driven(alone) as sent:
        look_then_add(alone, "CUSTOM_ALONE")

    begin = "START" if db.dialect == "mysql" else "BEGIN"
    assert sent == [[begin], ["SELECT"], ["INSERT"], ["COMMIT"]]
    assert len(read(db, "CUSTOM_ALONE")) == 1


@of_servers
def test_an_answer_is_waited_for_no_longer_than_said(db: Database) -> None:
    """psycopg2 cannot give up by itself: a thread watches what this module sends, too."""
    url = db.engine.url.update_query_dict({"read_timeout": "1", "statement_timeout": "0"})
    sleep = func.pg_sleep if db.dialect == "postgresql" else func.sleep
    engine = make_engine(url.render_as_string(hide_password=False))
    with pytest.raises((Unavailable, exc.DBAPIError)):
        Database(engine, attempts=lambda: 1).read(lambda it: it.value(select(sleep(FOR_EVER_S))))
    engine.dispose()


def test_a_statement_counts_whatever_it_travels_with(db: Database) -> None:
    """The log and the metrics say how many statements a request has sent."""
    trace = telemetry.begin()
    try:
        look_then_add(db, "CUSTOM_COUNTED_ONE")
    finally:
        telemetry.end()

    assert trace.counts_by_label(telemetry.STATEMENTS) == {"": 4}


def test_a_statement_that_waited_and_fails_is_rolled_back(
    db: Database, sent: list[list[str]]
) -> None:
    with pytest.raises(exc.IntegrityError):
        look_then_add(db, "CUSTOM_BEFORE", "CUSTOM_A")

    assert sent[-1] == ["ROLLBACK"]
    assert len(read(db)) == 1
    assert read(db, "CUSTOM_BEFORE") == []


def test_a_rollback_does_not_send_what_waited(db: Database, sent: list[list[str]]) -> None:
    """It could wait for a lock, or fail."""

    def fail(tx: Transaction) -> None:
        tx.rows(FIND, {"name": "CUSTOM_A"})
        tx.change_later(ADD, given("CUSTOM_UNSENT"), expected_rows=1)
        raise LookupError

    with pytest.raises(LookupError):
        db.write(fail)

    assert sent[-1] == ["ROLLBACK"]
    assert ["INSERT"] not in sent or db.dialect == "sqlite"
    assert read(db, "CUSTOM_UNSENT") == []


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

    def stop(*_: Any) -> None:
        raise Stop

    given_up: list[Any] = []
    event.listen(db.engine, "invalidate", lambda *given: given_up.append(given))
    with replaced_driver(db, stop), pytest.raises(Stop):
        read(db)

    assert len(given_up) == 1
    assert len(read(db)) == 1


def test_a_statement_whose_text_differs_from_call_to_call_is_refused(db: Database) -> None:
    among = select(TRAITS.c.name).where(TRAITS.c.name.in_(["CUSTOM_A"]))
    with pytest.raises(TypeError, match="lists or defaults"):
        db.read(lambda reader: reader.rows(among))
    with pytest.raises(TypeError, match="lists or defaults"):
        db.write(lambda tx: tx.change(TRAITS.update().values(name="CUSTOM_B")))


@pytest.mark.parametrize("is_after", [False, True])
def test_an_error_of_an_observer_is_treated_as_the_drivers(db: Database, is_after: bool) -> None:
    """It is wrapped, and the transaction begins again; others are told once of the end of each message."""
    times: list[int] = []
    told: list[BaseException | None] = []

    class Listening(Observer):
        def after(self, connection: Any, sent: Any, error: BaseException | None) -> None:
            told.append(error)

    def strike(connection: Any, message: Message) -> None:
        if "INSERT" in message.statements[-1].text or "INSERT" in message.statements[0].text:
            times.append(1)
            if len(times) == 1:
                raise_conflict(db, connection)

    with observed(db, Listening()), observed(db, Hook(after=strike) if is_after else Hook(strike)):
        assert add(db, f"CUSTOM_STRUCK_{is_after}") == 1

    assert len(times) == 2
    assert len([error for error in told if error is not None]) == 1
    assert len(read(db, f"CUSTOM_STRUCK_{is_after}")) == 1


def raise_conflict(db: Database, connection: Any) -> None:
    """Raise an error of the driver that tells the service to begin again."""
    if db.dialect == "sqlite":
        busy = sqlite3.OperationalError("database is locked")
        busy.sqlite_errorcode = sqlite3.SQLITE_BUSY
        raise busy
    if db.dialect == "mysql":
        raise db.engine.dialect.loaded_dbapi.OperationalError(1213, "Deadlock")
    connection.connection.cursor().execute(
        "DO $$ BEGIN RAISE EXCEPTION 'struck' USING ERRCODE = '40001'; END $$"
    )
