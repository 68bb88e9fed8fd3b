"""The history: who wrote what, and the previous state (specification 07 section 11)."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import orjson

from placement import errors
from placement.db.database import Database
from placement.errors import MalformedRequest
from placement.extensions.history import history_rows
from placement.extensions.history.history_rows import HistoryRow
from placement.printable import EPOCH, TIME_EXAMPLE, show_time

_MILLISECOND = timedelta(milliseconds=1)
_COLUMNS = {
    "consumer": "consumer_uuid",
    "provider": "provider_uuid",
    "project_id": "project",
    "request_id": "request_id",
}
"""The filters of a query, and the columns that they compare."""


class HistoryNotKept(errors.NotFound):
    """The service keeps no history of writes."""

    text = "No history is kept: [insight]/history_days is 0."


class Written(NamedTuple):
    """The write of one request to a consumer on a provider, or to a provider.

    ``user`` and ``project``: the ids in the token. ``name``: the present name of the provider.
    ``generations``: before and after, or None. ``before`` and ``after``: the states as JSON; None for
    nothing, and for an unreadable state.
    """

    at: str
    user: str | None
    project: str | None
    request_id: str | None
    global_request_id: str | None
    method: str | None
    route: str | None
    consumer_uuid: str | None
    provider_uuid: str | None
    name: str | None
    generations: tuple[int | None, int | None]
    before: Any
    after: Any


class HistoryPage(NamedTuple):
    """Writes, newest first. ``next``: the marker of the next page, or None."""

    writes: list[Written]
    next: str | None


def read_writes(db: Database, given: Mapping[str, str], limit: int) -> HistoryPage:
    """Return the writes that the query selects, at most ``limit``. One statement.

    :param given: the parameters of the query, which the schema has checked.
    :raises HistoryNotKept: 404
    :raises MalformedRequest: a time that does not exist.
    """
    if not history_rows.is_kept(db):
        raise HistoryNotKept()
    asked: dict[str, Any] = {
        column: given[name] for name, column in _COLUMNS.items() if name in given
    }
    # The names are compared as they are stored.
    asked |= {name: asked[name].lower() for name in asked if name.endswith("_uuid")}
    for name in ("since", "until"):
        if name in given:
            asked[name] = _read_time(name, given[name])
    if "marker" in given:
        # A row that is committed late is listed at the time of its write, and does not move other rows.
        asked["at"], asked["id"] = map(int, given["marker"].split("-"))
    rows = db.read(lambda reader: history_rows.find(reader, asked, limit + 1))
    last = rows[limit - 1] if len(rows) > limit else None
    return HistoryPage(
        [_make_written(row) for row in rows[:limit]],
        f"{last.written_at}-{last.id}" if last is not None else None,
    )


def _read_time(name: str, text: str) -> int:
    """Return a time as milliseconds since the epoch, rounded up, so that no older row is selected."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        # Written like a time, but with a month, an hour or an offset that does not exist.
        detail = f"{name!r} is {text!r}, which is not a time such as {TIME_EXAMPLE}"
        raise MalformedRequest.for_rule("query", detail=detail, field=name) from None
    return -((EPOCH - moment) // _MILLISECOND)


def _make_written(row: HistoryRow) -> Written:
    before, after = _read_state(row.state_before), _read_state(row.state_after)
    return Written(
        at=show_time(row.written_at),
        # A command has no token and no request.
        user=row.by_user or None,
        project=row.by_project or None,
        request_id=row.request_id or None,
        global_request_id=row.global_request_id,
        method=row.method or None,
        route=row.route or None,
        consumer_uuid=row.consumer_uuid,
        provider_uuid=row.provider_uuid,
        name=_read_name(before, after) if row.provider_name is None else row.provider_name,
        generations=(row.generation_before, row.generation_after),
        before=before,
        after=after,
    )


def _read_name(before: Any, after: Any) -> str | None:
    """Return the name of a provider that was deleted, where its own entry has it."""
    names = [each.get("name") for each in (after, before) if each]
    # A row may have been changed by SQL.
    return next((name for name in names if isinstance(name, str)), None)


def _read_state(text: str | None) -> Any:
    try:
        state = orjson.loads(text or "null")
        # A state that is nested too deep, or has too large numbers, cannot be shown either.
        return state if isinstance(state, dict) and orjson.dumps([[state]]) else None
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return None
