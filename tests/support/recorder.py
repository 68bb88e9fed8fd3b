"""Counting the SQL statements that a piece of work sends."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import event

from placement.db.database import Database

TRANSACTION_WORDS = ("BEGIN", "START", "SET TRANSACTION", "COMMIT", "ROLLBACK")


@contextmanager
def recorded(db: Database) -> Iterator[list[str]]:
    """Yield a list that fills with the statements sent, but for those around transactions."""
    statements: list[str] = []

    def record(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if not statement.startswith(TRANSACTION_WORDS):
            statements.append(statement)

    event.listen(db.engine, "before_cursor_execute", record)
    try:
        yield statements
    finally:
        event.remove(db.engine, "before_cursor_execute", record)


def first_words(message: str | bytes) -> list[str]:
    """Return the first word of each statement that travels."""
    text = message if isinstance(message, str) else message.decode()
    return [statement.split()[0] for statement in text.split("; ")]
