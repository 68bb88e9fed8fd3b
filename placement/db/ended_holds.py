"""The time of the database, and whether some hold is over by it."""

from sqlalchemy import BigInteger, ColumnElement, exists, literal, select

from placement.db import dialects, models

_holds = models.consumer_holds

NOW: ColumnElement[int] = dialects.Spelled(
    {
        # 2440587.5 is the Julian day of the epoch; unixepoch('subsec') is of SQLite 3.42.
        "sqlite": "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
        # The function is not clock_timestamp(): no index serves a comparison with that.
        "postgresql": "CAST(floor(extract(epoch FROM statement_timestamp()) * 1000) AS bigint)",
        # The function is not unix_timestamp(), which reads its argument in the time zone of the session.
        "mysql": "(timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(6)) DIV 1000)",
    },
    type_=BigInteger(),
)
"""The time of the database."""

IS_OVER: ColumnElement[bool] = _holds.c.expires_at <= NOW
"""The hold is over, whether or not its consumer exists: the one condition of all that look for such holds."""

ANY_OVER: ColumnElement[bool] = exists(select(literal(1)).select_from(_holds).where(IS_OVER))
"""Some row is over: a look into an index that is nearly always empty."""
