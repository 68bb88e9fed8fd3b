"""Safe forms of names and times for answers, logs, terminals and shells.

A name from the database can contain any character.
"""

import shlex
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

TIME_EXAMPLE = "2026-11-27T09:30:00Z"
"""What a refusal of a time shows."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_MS = (datetime(9999, 12, 31, tzinfo=UTC) - EPOCH) // timedelta(milliseconds=1)
"""The latest time that can be shown; a later one in the database is shown as this one."""

_IN_QUOTES = str.maketrans({"\\": "\\\\", "'": "\\'"})


def escape_unprintable(text: str) -> str:
    """Escape the characters of a line that could steer a terminal, and line breaks."""
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def escape_lines(text: str) -> str:
    """Escape the same characters in a text of several lines, but keep its line breaks."""
    return "\n".join(map(escape_unprintable, text.split("\n")))


def quote_word(word: str) -> str:
    """Return a word as a shell reads it back; with unprintable characters in the form ``$'...'``.

    Characters are written with three octal digits, since a shell may read more than two after ``\\x``.
    """
    if word.isprintable():
        return shlex.quote(word)
    parts = (
        one.translate(_IN_QUOTES)
        if one.isprintable()
        else "".join(f"\\{byte:03o}" for byte in one.encode(errors="surrogateescape"))
        for one in word
    )
    return f"$'{''.join(parts)}'"


def show_time(time_ms: int) -> str:
    """Return a time, given in milliseconds since the epoch, in the form of answers."""
    moment = EPOCH + timedelta(milliseconds=min(max(0, time_ms), _LAST_MS))
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def find_newest(moments: Iterable[datetime | None]) -> datetime | None:
    """Return the newest known moment; one without a zone is in UTC."""
    known = [moment for moment in moments if moment]
    try:
        return max(known, default=None)
    except TypeError:
        # SQLite can hold a time with a zone, which Python does not compare with one without.
        return max(map(in_utc, known))


def in_utc(moment: datetime) -> datetime:
    """Return a moment with the zone UTC."""
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
