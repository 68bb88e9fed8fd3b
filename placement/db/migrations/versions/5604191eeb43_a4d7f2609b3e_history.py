"""Let each write leave what it found and what it left, where ``[insight]/history_days`` says so."""

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

from placement.db.migrations import steps

revision = "5604191eeb43_a4d7f2609b3e"
down_revision = "0b9dadf6faa7_a4d7f2609b3e"


def _ascii(length: int) -> sa.types.TypeEngine[str]:
    exact = mysql.VARCHAR(length, charset="ascii", collation="ascii_bin")
    return sa.String(length).with_variant(exact, "mysql", "mariadb")


_number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_long_text = sa.Text().with_variant(
    mysql.MEDIUMTEXT(charset="ascii", collation="ascii_bin"), "mysql", "mariadb"
)
_listed = ("consumer_uuid", "provider_uuid", "project")

metadata = sa.MetaData()
sa.Table(
    "history",
    metadata,
    sa.Column("id", _number, primary_key=True, nullable=False, autoincrement=True),
    sa.Column("written_at", sa.BigInteger, nullable=False),
    sa.Column("request_id", _ascii(64), nullable=False),
    sa.Column("global_request_id", _ascii(64)),
    sa.Column("by_user", _ascii(255), nullable=False),
    sa.Column("by_project", _ascii(255), nullable=False),
    sa.Column("method", _ascii(16), nullable=False),
    sa.Column("route", _ascii(128), nullable=False),
    sa.Column("consumer_uuid", _ascii(36)),
    sa.Column("provider_uuid", _ascii(36)),
    sa.Column("project", _ascii(255)),
    sa.Column("generation_before", sa.Integer),
    sa.Column("generation_after", sa.Integer),
    sa.Column("state_before", _long_text),
    sa.Column("state_after", _long_text),
    sa.Index("history_written_at_idx", "written_at", "id"),
    *(sa.Index(f"history_{name}_idx", name, "written_at", "id") for name in _listed),
    sa.Index("history_request_id_idx", "request_id"),
    sa.Index("history_global_request_id_idx", "global_request_id"),
    **steps.TABLE_OPTIONS,
)


def upgrade() -> None:
    """Add the table, which is empty until a worker is told to keep the history."""
    steps.create_missing(metadata)
