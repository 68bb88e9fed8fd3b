"""Statements made ready once, and handed to the driver without anything between.

SQLAlchemy compiles a statement once too; but for each execution it looks that up by a key made of the
whole statement, and makes a context, a result and its columns, which nobody asks for here. Microseconds of
processor time for the statement of GET /allocations/{uuid}, by SQLAlchemy and by the driver's cursor (best of
seven): SQLite 61 and 20, psycopg2 232 and 123, mysqlclient 150 and 72, PyMySQL 292 and 273. A claim has seven
to nine. A :class:`Ready` statement keeps text, order of parameters and conversions, and what comes back
are the driver's own rows.

Who listens to SQLAlchemy's statement events (tracing, the tests), or has its log switched on, sees all
as ever: then the same statements go its way. So does each error: it is SQLAlchemy that wraps it,
judges whether the connection is gone, and drops it with its like.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from sqlalchemy import Connection, CursorResult, Dialect, Engine, event
from sqlalchemy.sql.compiler import SQLCompiler

from placement.db.packed_numbers import packed

Row = tuple[Any, ...]
Convert = Callable[[Any], Any]
Parameters = Mapping[str, Any]

_LOG = logging.getLogger("sqlalchemy.engine.Engine")
_RAISED = "placement_raised"
_SEND_SEVERAL = ("psycopg2",)


def _same(value: Any) -> Any:
    return value


class Ready:
    """A statement whose text depends on nothing but the kind of database.

    :param statement: of SQLAlchemy, with its parameters by name. Lists that expand at each call, and
        values that SQLAlchemy finds by itself (defaults of columns), make it go SQLAlchemy's way.
    """

    def __init__(self, statement: Any) -> None:
        self.statement = statement
        self._forms: dict[tuple[Any, ...], _Form] = {}

    def form(self, dialect: Dialect) -> "_Form":
        """Return the statement as the driver of this dialect takes it."""
        kind = (dialect.name, dialect.driver, dialect.server_version_info)
        found = self._forms.get(kind)
        if found is None:
            found = self._forms[kind] = _Form(self.statement, dialect)
        return found


class _Form:
    """A statement for one kind of driver.

    ``is_whole``: nothing is left to be done to text or parameters at each call.
    """

    def __init__(self, statement: Any, dialect: Dialect) -> None:
        self._columns = getattr(statement, "selected_columns", ())
        self._packed = packed(statement, dialect)
        if self._packed is not None:
            statement = self._packed.statement
        compiled = statement.compile(dialect=dialect)
        assert isinstance(compiled, SQLCompiler)
        self.is_whole = not (
            compiled.post_compile_params or compiled.insert_prefetch or compiled.update_prefetch
        )
        self.text = compiled.string
        self._dialect = dialect
        self._names = compiled.positiontup
        self._given: dict[str, Convert] = {}
        for bind, name in compiled.bind_names.items():
            convert = bind.type.dialect_impl(dialect).bind_processor(dialect)
            if convert is not None:
                self._given[name] = convert
        # Values that stand in the statement itself.
        self._fixed = {
            name: self._given.pop(name, _same)(value)
            for name, value in compiled.params.items()
            if value is not None
        }
        self._taken: list[tuple[int, Convert]] | None = None

    def bound(self, parameters: Parameters) -> Any:
        """Return the parameters as the driver takes them."""
        if self._fixed:
            parameters = {**self._fixed, **parameters}
        for name, convert in self._given.items():
            parameters = {**parameters, name: convert(parameters[name])}
        if self._names is None:
            return parameters
        # Of a list, which is faster than of a generator.
        return tuple([parameters[name] for name in self._names])

    def converted(self, rows: Sequence[Row], description: Sequence[Any]) -> Sequence[Row]:
        """Return the driver's rows with what it does not know itself made of some columns."""
        if self._packed is not None:
            rows = self._packed.unpack(rows)
        if self._taken is None:
            self._taken = list(self._conversions(description))
        if not self._taken or not rows:
            return rows
        changed = []
        for row in rows:
            values = list(row)
            for place, convert in self._taken:
                values[place] = convert(values[place])
            changed.append(tuple(values))
        return changed

    def _conversions(self, description: Sequence[Any]) -> Any:
        for place, column in enumerate(self._columns):
            own_type = column.type.dialect_impl(self._dialect)
            code = None if self._packed is not None else description[place][1]
            convert = own_type.result_processor(self._dialect, code)
            if convert is not None:
                yield place, convert


def prepare(engine: Engine) -> None:
    """Make a new engine ready for :func:`rows` and :func:`change`.

    To be called before others listen who run statements themselves (:mod:`placement.db.watchdog`): of
    those who hear ``do_execute`` the first to act is the last.
    """
    event.listen(engine, "do_execute", _raise)


def nobody_listens(engine: Engine) -> bool:
    """Nobody wants to hear of each statement, so that it may go to the driver directly."""
    heard = engine.dispatch
    return not (
        heard.before_cursor_execute or heard.after_cursor_execute or _LOG.isEnabledFor(logging.INFO)
    )


def rows(connection: Connection, ready: Ready, parameters: Parameters) -> Sequence[Row]:
    """Return the rows of a statement that reads. Nobody listens.

    :raises sqlalchemy.exc.DBAPIError: the driver's error, as SQLAlchemy wraps it.
    """
    form = ready.form(connection.dialect)
    if not form.is_whole:
        return watched_rows(connection, ready, parameters)
    _, found, description = _run(connection, form.text, form.bound(parameters), True)
    return form.converted(found, description)


def change(connection: Connection, ready: Ready, parameters: Parameters) -> int:
    """Return how many rows a statement that writes has found. Nobody listens.

    :raises sqlalchemy.exc.DBAPIError: the driver's error, as SQLAlchemy wraps it.
    """
    form = ready.form(connection.dialect)
    if not form.is_whole:
        return watched_change(connection, ready, parameters)
    return _run(connection, form.text, form.bound(parameters), False)[0]


def send(connection: Connection, text: str) -> None:
    """Send a statement without parameters and rows, such as COMMIT. Nobody listens.

    :raises sqlalchemy.exc.DBAPIError: the driver's error, as SQLAlchemy wraps it.
    """
    _run(connection, text, (), False)


def can_commit_with(connection: Connection, ready: Ready) -> bool:
    """:func:`change_and_commit` can be done: the driver takes two statements as one message."""
    dialect = connection.dialect
    return dialect.driver in _SEND_SEVERAL and ready.form(dialect).is_whole


def change_and_commit(connection: Connection, ready: Ready, parameters: Parameters) -> None:
    """Run a statement that writes, and COMMIT if it succeeds: one journey. Nobody listens.

    :raises sqlalchemy.exc.DBAPIError: the driver's error, as SQLAlchemy wraps it.
    """
    form = ready.form(connection.dialect)
    _run(connection, f"{form.text}; COMMIT", form.bound(parameters), False)


def watched_rows(connection: Connection, ready: Ready, parameters: Parameters) -> Sequence[Row]:
    """Return the same as :func:`rows`, by way of SQLAlchemy."""
    return [tuple(row) for row in connection.execute(ready.statement, parameters)]


def watched_change(connection: Connection, ready: Ready, parameters: Parameters) -> int:
    """Return the same as :func:`change`, by way of SQLAlchemy."""
    done: CursorResult[*tuple[Any, ...]] = connection.execute(ready.statement, parameters)
    return done.rowcount


def _run(
    connection: Connection, text: str, parameters: Any, reads: bool
) -> tuple[int, Sequence[Row], Sequence[Any]]:
    """Return the number of rows, the rows, and the driver's description of their columns."""
    driver = connection.connection
    cursor = None
    try:
        cursor = driver.cursor()
        _execute(connection.dialect, cursor, text, parameters)
        found = cursor.fetchall() if reads else ()
        done = (cursor.rowcount, found, cursor.description)
        cursor.close()
        return done
    except BaseException as error:
        if cursor is not None:
            with suppress(Exception):
                cursor.close()
        _hand_over(connection, text, parameters, error)


def _execute(dialect: Dialect, cursor: Any, text: str, parameters: Any) -> None:
    for listener in dialect.dispatch.do_execute:
        if listener(cursor, text, parameters, None):
            return
    dialect.do_execute(cursor, text, parameters)


def _hand_over(
    connection: Connection, text: str, parameters: Any, error: BaseException
) -> NoReturn:
    """Raise the error as SQLAlchemy raises it, which does all that it does after one.

    It runs the statement, and :func:`_raise` takes the driver's place.
    """
    connection.exec_driver_sql(text, parameters, execution_options={_RAISED: error})
    raise error


def _raise(_cursor: Any, _text: str, _parameters: Any, context: Any) -> None:
    if context is not None and (error := context.execution_options.get(_RAISED)):
        raise error
