"""May this user of the database do what the service does? Asked by statements that change nothing."""

from sqlalchemy import Connection, exc, false, func, select

from placement.db import driver_errors, models
from placement.db.database import Database
from placement.db.schema import SchemaError


class RightsMissing(SchemaError):
    """The user of the database may not do everything that the service does."""


def require_rights(database: Database) -> None:
    """Check that the service may read and write every table of its schema, which is at head.

    :raises RightsMissing: naming everything that is missing.
    """
    with database.engine.connect() as connection:
        missing = [
            f"{verb} {table.name}"
            for table in models.metadata.sorted_tables
            for verb in ("SELECT", "INSERT", "UPDATE", "DELETE")
            if not _may(connection, verb, table.name)
        ]
        missing += [f"USAGE of {name}" for name in _sequences(connection)]
    if missing:
        raise RightsMissing(
            f"The user of [placement_database]/connection lacks rights: {', '.join(missing)}. Grant "
            "SELECT, INSERT, UPDATE and DELETE on all tables (on PostgreSQL also USAGE on all "
            "sequences) of the database to this user."
        )


def _may(connection: Connection, verb: str, table: str) -> bool:
    subject = models.metadata.tables[table]
    column = next(iter(subject.columns))
    statements = {
        "SELECT": select(column).where(false()),
        "INSERT": subject.insert().from_select(
            [one.name for one in subject.columns], select(*subject.columns).where(false())
        ),
        "UPDATE": subject.update().where(false()).values({column.name: column}),
        "DELETE": subject.delete().where(false()),
    }
    try:
        connection.execute(statements[verb])
    except exc.DBAPIError as error:
        if not driver_errors.lacks_rights(error):
            raise
        return False
    return True


def _sequences(connection: Connection) -> list[str]:
    """Return the sequences of PostgreSQL that give ids and that this user may not use."""
    if connection.dialect.name != "postgresql":
        return []
    missing = []
    for table in models.metadata.sorted_tables:
        if "id" in table.columns:
            name = connection.scalar(select(func.pg_get_serial_sequence(table.name, "id")))
            if name and not connection.scalar(select(func.has_sequence_privilege(name, "USAGE"))):
                missing.append(str(name))
    return missing
