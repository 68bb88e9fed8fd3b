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

from placement.db import message
from placement.db.message import Part
from placement.db.packed_numbers import packed

Row = tuple[Any, ...]
Convert = Callable[[Any], Any]
Parameters = Mapping[str, Any]

_LOG = logging.getLogger("sqlalchemy.engine.Engine")
_RAISED = "placement_raised"


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
        self._fixed: dict[str, Any] = {}
        for bind, name in compiled.bind_names.items():
            convert = bind.type.dialect_impl(dialect).bind_processor(dialect)
            if bind.value is None:
                if convert is not None:
                    self._given[name] = convert
            elif self._names is None:
                # A value that stands in the statement itself: drivers take as long for it as for any other.
                value = compiled.render_literal_value(bind.value, bind.type)
                self.text = self.text.replace(f"%({name})s", value)
            else:
                self._fixed[name] = (convert or _same)(bind.value)
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


def rows(
    connection: Connection, ready: Ready, parameters: Parameters, before: Sequence[Part] = ()
) -> Sequence[Row]:
    """Return the rows of a statement that reads. Nobody listens.

    :param before: what goes to the database before it, or in one message with it.
    :raises sqlalchemy.exc.DBAPIError: the driver's error, as SQLAlchemy wraps it.
    :raises StaleRead: of what went before, something has found another number of rows than it must.
    """
    form = ready.form(connection.dialect)
    if not form.is_whole:
        send(connection, before)
        return watched_rows(connection, ready, parameters)
    parts = (*before, Part(form.text, form.bound(parameters)))
    _, found, description = _run(connection, parts, True)
    return form.converted(found, description)


def change(
    connection: Connection, ready: Ready, parameters: Parameters, before: Sequence[Part] = ()
) -> int:
    """Return how many rows a statement that writes has found. Nobody listens.

    Parameters and errors are those of :func:`rows`.
    """
    form = ready.form(connection.dialect)
    if not form.is_whole:
        send(connection, before)
        return watched_change(connection, ready, parameters)
    return _run(connection, (*before, Part(form.text, form.bound(parameters))), False)[0]


def send(connection: Connection, parts: Sequence[Part]) -> None:
    """Send statements whose rows nobody asks for. Nobody listens. The errors are those of :func:`rows`."""
    if parts:
        _run(connection, parts, False)


def postponed(
    connection: Connection, ready: Ready, parameters: Parameters, finds: int | None
) -> Part | None:
    """Return a statement that writes as a part of a message; None if it must be run alone."""
    form = ready.form(connection.dialect)
    if not form.is_whole:
        return None
    part = Part(form.text, form.bound(parameters), finds)
    return message.expecting(connection.dialect.driver, part)


def watched_rows(connection: Connection, ready: Ready, parameters: Parameters) -> Sequence[Row]:
    """Return the same as :func:`rows`, by way of SQLAlchemy."""
    return [tuple(row) for row in connection.execute(ready.statement, parameters)]


def watched_change(connection: Connection, ready: Ready, parameters: Parameters) -> int:
    """Return the same as :func:`change`, by way of SQLAlchemy."""
    done: CursorResult[*tuple[Any, ...]] = connection.execute(ready.statement, parameters)
    return done.rowcount


def _run(
    connection: Connection, parts: Sequence[Part], reads: bool
) -> tuple[int, Sequence[Row], Sequence[Any]]:
    """Return of the last part: number of rows, rows, and the driver's description of their columns."""
    dialect = connection.dialect
    cursor = None
    try:
        cursor = connection.connection.cursor()
        _execute(dialect, cursor, *message.written(dialect.driver, cursor, parts))
        numbers = message.numbers(dialect.driver, cursor, parts)
        done = (numbers[-1], cursor.fetchall() if reads else (), cursor.description)
        cursor.close()
    except BaseException as error:
        if cursor is not None:
            with suppress(Exception):
                cursor.close()
        _hand_over(connection, parts, error)
    message.check(parts, numbers)
    return done


def _execute(dialect: Dialect, cursor: Any, text: str, parameters: Any) -> None:
    for listener in dialect.dispatch.do_execute:
        if listener(cursor, text, parameters, None):
            return
    dialect.do_execute(cursor, text, parameters)


def _hand_over(connection: Connection, parts: Sequence[Part], error: BaseException) -> NoReturn:
    """Raise the error as SQLAlchemy raises it, which does all that it does after one.

    It runs the statement, and :func:`_raise` takes the driver's place.
    """
    text, parameters, _ = parts[-1]
    if len(parts) > 1:
        # With all values beside it, as SQLAlchemy shows or hides them.
        text = "; ".join(part.text for part in parts)
        parameters = tuple(part.parameters for part in parts)
    connection.exec_driver_sql(text, parameters, execution_options={_RAISED: error})
    raise error


def _raise(_cursor: Any, _text: str, _parameters: Any, context: Any) -> None:
    if context is not None and (error := context.execution_options.get(_RAISED)):
        raise error
