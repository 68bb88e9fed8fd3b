"""The clock of the database, which decides what has expired, since the clocks of several servers differ."""

from sqlalchemy import BigInteger, ColumnElement

from placement.db import dialects

NOW: ColumnElement[int] = dialects.DialectText(
    {
        # 2440587.5 is the Julian day of the epoch; unixepoch('subsec') needs SQLite 3.42.
        "sqlite": "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
        # clock_timestamp() would not do: no index serves a comparison with it.
        "postgresql": "CAST(floor(extract(epoch FROM statement_timestamp()) * 1000) AS bigint)",
        # unix_timestamp() would not do: it reads its argument in the time zone of the session.
        "mysql": "(timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(6)) DIV 1000)",
    },
    type_=BigInteger(),
)
"""The time of the database, in milliseconds since the epoch."""
