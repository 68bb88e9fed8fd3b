"""The table of the history: what each write found and left (specification 07 section 11)."""

from sqlalchemy import BigInteger, Column, Index, Integer, Table, Text
from sqlalchemy.dialects import mysql

from placement.db.models import TABLE_OPTIONS, ascii_text, metadata

# A provider may have thousands of traits.
_long_text = Text().with_variant(
    mysql.MEDIUMTEXT(charset="ascii", collation="ascii_bin"), "mysql", "mariadb"
)

# A transaction leaves one row for each provider that it has written, and for each provider of a consumer that
# it has written (history_rows.py). The rows have names and uuids, not ids, because they outlive what they are
# about. Times are milliseconds since the epoch, by the clock of the database.
history = Table(
    "history",
    metadata,
    Column(
        "id",
        BigInteger().with_variant(Integer(), "sqlite"),
        primary_key=True,
        nullable=False,
        autoincrement=True,
    ),
    Column("written_at", BigInteger, nullable=False),
    # The author of the write, and the request.
    Column("request_id", ascii_text(64), nullable=False),
    # The id that the client sent: Nova sends that of its action.
    Column("global_request_id", ascii_text(64), nullable=True),
    Column("by_user", ascii_text(255), nullable=False),
    Column("by_project", ascii_text(255), nullable=False),
    Column("method", ascii_text(16), nullable=False),
    Column("route", ascii_text(128), nullable=False),
    # The subject of the write.
    Column("consumer_uuid", ascii_text(36), nullable=True),
    Column("provider_uuid", ascii_text(36), nullable=True),
    Column("project", ascii_text(255), nullable=True),
    Column("generation_before", Integer, nullable=True),
    Column("generation_after", Integer, nullable=True),
    # Both states are JSON.
    Column("state_before", _long_text, nullable=True),
    Column("state_after", _long_text, nullable=True),
    Index("history_written_at_idx", "written_at", "id"),
    Index("history_consumer_uuid_idx", "consumer_uuid", "written_at", "id"),
    Index("history_provider_uuid_idx", "provider_uuid", "written_at", "id"),
    Index("history_project_idx", "project", "written_at", "id"),
    Index("history_request_id_idx", "request_id"),
    Index("history_global_request_id_idx", "global_request_id"),
    **TABLE_OPTIONS,
)
