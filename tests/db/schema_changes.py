"""What a revision changes, judged by what workers of the release before it need.

The rule is in docs/maintainers/new-migration.rst, and in specification 06 section 7.6.
"""

from collections.abc import Container, Iterator
from typing import Any, NamedTuple

from sqlalchemy import Connection, inspect

LEFT_BEHIND: dict[str, str] = {}
"""What the database has still and this release does not use: ``table``, ``table.column`` or ``table/index``.

Each with the own part of the head of the first release that does not use it. The next release may drop it.
"""

HARMLESS = {"CASCADE", "SET NULL"}
"""What a new foreign key may do when a worker that does not know it deletes the row that it refers to."""


class ColumnShape(NamedTuple):
    """What a statement that names a column, or leaves it out, depends on."""

    type: str
    nullable: bool
    default: str | None
    fills_itself: bool


class Rule(NamedTuple):
    """A constraint: what it is, of which columns, and with which other table."""

    kind: str
    table: str
    columns: tuple[str, ...]
    other: str = ""
    on_delete: str = ""


class Shape(NamedTuple):
    """A schema. ``columns`` by ``table.column``; ``indexes`` are named ``table/index``."""

    tables: frozenset[str]
    columns: dict[str, ColumnShape]
    indexes: frozenset[str]
    rules: frozenset[Rule]


def shape_of(connection: Connection) -> Shape:
    """Return the present schema of a database."""
    found = inspect(connection)
    tables = frozenset(found.get_table_names())
    columns = {
        f"{table}.{column['name']}": ColumnShape(
            str(column["type"]),
            column["nullable"],
            column.get("default"),
            bool(column.get("autoincrement")) and column["name"] == "id",
        )
        for table in tables
        for column in found.get_columns(table)
    }
    indexes = frozenset(
        f"{table}/{index['name']}" for table in tables for index in found.get_indexes(table)
    )
    return Shape(tables, columns, indexes, frozenset(_rules(found, tables)))


def _rules(found: Any, tables: frozenset[str]) -> Iterator[Rule]:
    for table in tables:
        yield Rule(
            "primary key", table, tuple(found.get_pk_constraint(table)["constrained_columns"])
        )
        for unique in found.get_unique_constraints(table):
            yield Rule("unique constraint", table, tuple(unique["column_names"]))
        for index in found.get_indexes(table):
            if index["unique"]:
                yield Rule("unique constraint", table, tuple(index["column_names"]))
        for key in found.get_foreign_keys(table):
            columns, other = tuple(key["constrained_columns"]), key["referred_table"]
            on_delete = key["options"].get("ondelete") or ""
            yield Rule("foreign key", table, columns, other, on_delete)
        for check in found.get_check_constraints(table):
            yield Rule("check", table, (check["sqltext"],))


def is_left_behind(difference: Any) -> bool:
    """Tell whether a difference that Alembic has found between database and models is declared."""
    match difference:
        case ("remove_table", table):
            return table.name in LEFT_BEHIND
        case ("remove_column", _, table, column):
            return f"{table}.{column.name}" in LEFT_BEHIND
        case ("remove_index", index):
            return (
                f"{index.table.name}/{index.name}" in LEFT_BEHIND or index.table.name in LEFT_BEHIND
            )
    return False


def faults(before: Shape, after: Shape, droppable: Container[str] = ()) -> list[str]:
    """Return what of a change would break workers of the release before.

    :param droppable: what those do not use any more, in the spelling of ``LEFT_BEHIND``.
    """
    return [
        *_gone(before, after, droppable),
        *_stricter_columns(before, after),
        *_stricter_rules(before, after),
    ]


def _gone(before: Shape, after: Shape, droppable: Container[str]) -> Iterator[str]:
    for table in sorted(before.tables - after.tables):
        if table not in droppable:
            yield f"{table} is gone"
    for name in sorted(before.columns.keys() - after.columns.keys()):
        if name.partition(".")[0] in after.tables and name not in droppable:
            yield f"{name} is gone"
    for name in sorted(before.indexes - after.indexes):
        if name.partition("/")[0] in after.tables and name not in droppable:
            yield f"{name} is gone"


def _stricter_columns(before: Shape, after: Shape) -> Iterator[str]:
    for name, now in sorted(after.columns.items()):
        was = before.columns.get(name)
        if was is None:
            known = name.partition(".")[0] in before.tables
            if known and not now.nullable and now.default is None and not now.fills_itself:
                yield f"{name} is neither null nor has it a default"
            continue
        if now.type != was.type:
            yield f"{name} is {now.type}, and was {was.type}"
        if was.nullable and not now.nullable:
            yield f"{name} may not be null any more"
        if was.default is not None and now.default != was.default:
            yield f"{name} has another default"


def _stricter_rules(before: Shape, after: Shape) -> Iterator[str]:
    for rule in sorted(after.rules - before.rules):
        on_old = rule.table in before.tables
        if on_old or (rule.other in before.tables and rule.on_delete.upper() not in HARMLESS):
            yield f"new {rule.kind} of {rule.table} ({', '.join(rule.columns)})"
