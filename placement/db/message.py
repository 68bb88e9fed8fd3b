"""Several statements as one message: to be sent and answered is most of what a small statement costs.

What messages of several bring to claims over one for each statement (PostgreSQL: one for each but the
last and COMMIT), in 12 turns of a second, the database on the same two cores: processor time 0.83 with
psycopg2 and 0.87 with PyMySQL; claims per second by one client 1.09 and 1.24, by two processes of eight
threads 1.12 and 1.11. On a network each message is a journey as well.

The first statement that fails is the last that is run. Of psycopg2 one hears only what came of the last;
PyMySQL and mysqlclient tell of each.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

LAST_IS_HEARD = ("psycopg2",)
ALL_ARE_HEARD = ("pymysql", "mysqldb")
DRIVERS = (*LAST_IS_HEARD, *ALL_ARE_HEARD)
"""Those that take several statements at once."""

_BYTES = "latin-1"
"""Any bytes are a text of it, and the other way round."""

SEVERAL = "several_statements"
"""In the ``info`` of a connection: such messages may be sent to it."""


class StaleRead(Exception):
    """What was read inside this transaction is no longer true: begin it again.

    Raised by a compare-and-set that found no row, and by an insert that somebody else made first.
    """


class Part(NamedTuple):
    """A statement as its driver takes it. ``finds``: how many rows it must find, None for any number."""

    text: str
    parameters: Any = ()
    finds: int | None = None


def expecting(driver: str, part: Part) -> Part:
    """Return a part that fails unless it finds so many rows, or that is heard before COMMIT."""
    if part.finds is None or driver in ALL_ARE_HEARD:
        return part
    # Nothing of it comes from outside: a ready text, and how many rows there are.
    text = (
        f"WITH changed AS ({part.text} RETURNING 1) "  # noqa: S608
        f"SELECT 1 / CAST(count(*) = {part.finds} AS integer) FROM changed"
    )
    return Part(text, part.parameters)


def written(driver: str, cursor: Any, parts: Sequence[Part]) -> tuple[Any, Any]:
    """Return text and parameters of the message, as ``cursor.execute`` wants them."""
    if len(parts) == 1:
        return parts[0][:2]
    text = "; ".join([_filled(cursor, part) for part in parts])
    # What psycopg2 has quoted are bytes already.
    return (text.encode(_BYTES) if driver in LAST_IS_HEARD else text), None


def _filled(cursor: Any, part: Part) -> str:
    """Return the text of a part with its parameters in their places, as the driver writes them.

    Most are ids and amounts, which need no quotes, and of which the driver would take up to 2 us for each.
    With that, and with no value bound twice (:mod:`placement.db.insertion`, :mod:`placement.db.ready`), a
    claim takes 0.91 of the processor time on PostgreSQL.
    """
    given = part.parameters
    if isinstance(given, Mapping):
        return part.text % {name: _literal(cursor, value) for name, value in given.items()}
    return part.text % tuple([_literal(cursor, value) for value in given])


def _literal(cursor: Any, value: Any) -> Any:
    if type(value) is int and value >= 0:
        return value
    text: str | bytes = cursor.mogrify("%s", (value,))
    return text if isinstance(text, str) else text.decode(_BYTES)


def numbers(driver: str, cursor: Any, parts: Sequence[Part]) -> list[int]:
    """Return how many rows the parts have found that are heard of; the cursor is at the last result."""
    found = [cursor.rowcount]
    if driver in ALL_ARE_HEARD:
        for _ in parts[1:]:
            cursor.nextset()
            found.append(cursor.rowcount)
    return found


def check(parts: Sequence[Part], found: Sequence[int]) -> None:
    """Check what the parts have found.

    :raises StaleRead: another number of rows than one of them must find.
    """
    for part, number in zip(reversed(parts), reversed(found), strict=False):
        if part.finds not in (None, number):
            raise StaleRead("other rows are there than were read")
