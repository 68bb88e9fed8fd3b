"""The data migration of groups and holds (specification 06 section 7.4)."""

from sqlalchemy import Inspector, inspect

from placement.db.database import Database
from placement.db.online_migrations import IncompleteIds, NamedMigrations
from placement.extensions.claims import consumer_keys


def note_consumer_uuids(database: Database, _ids: IncompleteIds, max_count: int) -> tuple[int, int]:
    """Write the uuids of consumers into rows that workers of the previous release have written."""
    with database.engine.connect() as connection:
        columns = inspect(connection)
        if not all(_has_uuids(columns, table.name) for table in consumer_keys.TABLES):
            return 0, 0
    done = database.write(lambda tx: consumer_keys.note_uuids(tx, max_count))
    return done, done


def _has_uuids(inspector: Inspector, table: str) -> bool:
    if not inspector.has_table(table):
        return False
    return any(column["name"] == "consumer_uuid" for column in inspector.get_columns(table))


MIGRATIONS: NamedMigrations = (("note_consumer_uuids", note_consumer_uuids),)
