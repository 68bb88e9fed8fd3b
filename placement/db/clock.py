"""The clock of the database, which judges what has expired: clocks of several servers differ."""

from sqlalchemy import BigInteger, ColumnElement

from placement.db import dialects

NOW: ColumnElement[int] = dialects.DialectText(
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
"""The time of the database, in milliseconds since the epoch."""
