"""Watching the messages that a piece of work sends to the database."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from sqlalchemy import Connection, Dialect

from placement.db import transport
from placement.db.database import Database
from placement.db.transport import Message, Observer

TRANSACTION_WORDS = ("BEGIN", "START", "SET TRANSACTION", "COMMIT", "ROLLBACK")


class Hook(Observer):
    """An observer that calls functions: before a message, and after one that brought no error."""

    def __init__(
        self,
        before: Callable[[Connection, Message], Any] | None = None,
        after: Callable[[Connection, Message], Any] | None = None,
    ) -> None:
        self._before, self._after = before, after

    def before(self, connection: Connection, sent: Message) -> None:
        if self._before is not None:
            self._before(connection, sent)

    def after(self, connection: Connection, sent: Message, error: BaseException | None) -> None:
        if self._after is not None and error is None:
            self._after(connection, sent)


@contextmanager
def observed(db: Database, observer: Observer) -> Iterator[None]:
    """Let the observer watch the messages of ``db``."""
    db.observers.append(observer)
    try:
        yield
    finally:
        db.observers.remove(observer)


Execute = Callable[[Any, str | bytes, Any], object]
"""Gives a message to the cursor of the driver: cursor, text, parameters."""


@contextmanager
def replaced_driver(db: Database, run: Callable[[Execute, Any, str | bytes, Any], None]) -> Iterator[None]:
    """Let ``run(execute, cursor, text, parameters)`` take the place of the driver for each message."""
    usual, mine = transport._execute, db.engine.dialect

    def take_over(dialect: Dialect, cursor: Any, text: str | bytes, parameters: Any) -> None:
        if dialect is mine:
            run(partial(usual, dialect), cursor, text, parameters)
        else:
            usual(dialect, cursor, text, parameters)

    transport._execute = take_over
    try:
        yield
    finally:
        transport._execute = usual


@contextmanager
def messages(db: Database) -> Iterator[list[Message]]:
    """Yield a list that fills with the messages sent."""
    sent: list[Message] = []
    with observed(db, Hook(lambda _connection, message: sent.append(message))):
        yield sent


@contextmanager
def recorded(db: Database) -> Iterator[list[str]]:
    """Yield a list that fills with the statements sent, but for those around transactions."""
    statements: list[str] = []

    def record(_connection: Connection, sent: Message) -> None:
        texts = [each.text for each in sent.statements]
        statements.extend(text for text in texts if not text.startswith(TRANSACTION_WORDS))

    with observed(db, Hook(record)):
        yield statements


def first_words(message: str | bytes) -> list[str]:
    """Return the first word of each statement that travels."""
    text = message if isinstance(message, str) else message.decode()
    return [statement.split()[0] for statement in text.split("; ")]
