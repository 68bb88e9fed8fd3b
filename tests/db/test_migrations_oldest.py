"""Copies of nova's tables from before this service had a schema of its own: Ocata's and Pike's.

What ``db sync`` prints about them is typed as it stands, and every row is kept.
"""

import re
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import Column, DateTime, Float, Integer, String, Unicode, UniqueConstraint

from placement.db import schema
from tests.support.databases import opened
from tests.support.programs import Command
from tests.support.programs import command as command
from tests.support.programs import environment as environment

Rows = dict[str, list[dict[str, Any]]]


def _table(metadata: sa.MetaData, name: str, *items: Any) -> None:
    stamps = Column("created_at", DateTime), Column("updated_at", DateTime)
    sa.Table(name, metadata, *stamps, *items, mysql_engine="InnoDB", mysql_charset="utf8")


def _id() -> Column[int]:
    return Column("id", Integer, primary_key=True, nullable=False)


def _numbers(*names: str) -> list[Column[int]]:
    return [Column(name, Integer, nullable=False) for name in names]


def _unique(table: str, *names: str) -> UniqueConstraint:
    return UniqueConstraint(*names, name=f"uniq_{table}0{names[0]}")


def _names(metadata: sa.MetaData, table: str, column: str) -> None:
    named = Column(column, String(255), nullable=False)
    _table(metadata, table, _id(), named, _unique(table, column))


def _pairs(metadata: sa.MetaData, table: str, names: tuple[str, str], *more: Any) -> None:
    """A table of pairs of ids."""
    of_pairs = {"primary_key": True, "nullable": False, "autoincrement": False}
    _table(metadata, table, *(Column(name, Integer, **of_pairs) for name in names), *more)


def ocata() -> sa.MetaData:
    """The tables of Ocata: no owners of allocations, no traits, no trees."""
    made = sa.MetaData()
    _table(
        made,
        "resource_providers",
        _id(),
        Column("uuid", String(36), nullable=False),
        Column("name", Unicode(200)),
        Column("generation", Integer),
        Column("can_host", Integer),
        _unique("resource_providers", "uuid"),
        _unique("resource_providers", "name"),
        sa.Index("resource_providers_uuid_idx", "uuid"),
        sa.Index("resource_providers_name_idx", "name"),
    )
    _table(
        made,
        "inventories",
        _id(),
        *_numbers("resource_provider_id", "resource_class_id", "total", "reserved"),
        *_numbers("min_unit", "max_unit", "step_size"),
        Column("allocation_ratio", Float, nullable=False),
        UniqueConstraint(
            "resource_provider_id",
            "resource_class_id",
            name="uniq_inventories0resource_provider_resource_class",
        ),
        sa.Index("inventories_resource_provider_id_idx", "resource_provider_id"),
        sa.Index("inventories_resource_class_id_idx", "resource_class_id"),
    )
    _table(
        made,
        "allocations",
        _id(),
        *_numbers("resource_provider_id", "resource_class_id", "used"),
        Column("consumer_id", String(36), nullable=False),
        sa.Index("allocations_resource_class_id_idx", "resource_class_id"),
        sa.Index("allocations_consumer_id_idx", "consumer_id"),
    )
    _names(made, "resource_classes", "name")
    _table(
        made,
        "placement_aggregates",
        _id(),
        Column("uuid", String(36)),
        _unique("placement_aggregates", "uuid"),
        sa.Index("ix_placement_aggregates_uuid", "uuid"),
    )
    _pairs(
        made,
        "resource_provider_aggregates",
        ("resource_provider_id", "aggregate_id"),
        sa.Index("resource_provider_aggregates_aggregate_id_idx", "aggregate_id"),
    )
    return made


def pike() -> sa.MetaData:
    """The tables of Pike: owners without generations, traits, no trees."""
    made = ocata()
    for name in ("projects", "users"):
        _names(made, name, "external_id")
    _table(
        made,
        "consumers",
        _id(),
        Column("uuid", String(36), nullable=False),
        *_numbers("project_id", "user_id"),
        _unique("consumers", "uuid"),
        sa.Index("consumers_project_id_uuid_idx", "project_id", "uuid"),
    )
    _table(made, "traits", _id(), Column("name", Unicode(255), nullable=False))
    _pairs(made, "resource_provider_traits", ("trait_id", "resource_provider_id"))
    return made


SHAPES = {"ocata": ocata, "pike": pike}

CONSUMERS = [f"00000000-0000-4000-8000-00000000000{number}" for number in range(4)]
LEDGER: Rows = {
    "resource_providers": [
        {"id": number, "uuid": f"host-{number}", "name": f"host-{number}", "generation": number}
        for number in (1, 2)
    ],
    # Standard classes were no rows in those days.
    "resource_classes": [{"id": 10000, "name": "CUSTOM_BAREMETAL"}],
    "inventories": [
        {
            "id": 10 * provider + class_id % 7,
            "resource_provider_id": provider,
            "resource_class_id": class_id,
            "total": 64,
            "reserved": 0,
            "min_unit": 1,
            "max_unit": 64,
            "step_size": 1,
            "allocation_ratio": 1.5,
        }
        for provider in (1, 2)
        for class_id in (0, 1, 10000)
    ],
    "allocations": [
        {
            "id": number + 1,
            "resource_provider_id": number % 2 + 1,
            "resource_class_id": 0,
            "used": number + 1,
            "consumer_id": consumer,
        }
        for number, consumer in enumerate(CONSUMERS)
    ],
    "placement_aggregates": [{"id": 1, "uuid": "aggregate"}],
    "resource_provider_aggregates": [{"resource_provider_id": 2, "aggregate_id": 1}],
}
OWNED: Rows = {
    "projects": [{"id": 5, "external_id": "project"}],
    "users": [{"id": 6, "external_id": "user"}],
    "consumers": [{"id": 7, "uuid": CONSUMERS[0], "project_id": 5, "user_id": 6}],
    "traits": [{"id": 3, "name": "CUSTOM_FAST"}],
    "resource_provider_traits": [{"trait_id": 3, "resource_provider_id": 1}],
}


def made(url: str, shape: str) -> tuple[sa.MetaData, Rows]:
    """Make the tables of a release, with rows in each."""
    metadata, rows = SHAPES[shape](), {**LEDGER, **(OWNED if shape == "pike" else {})}
    with opened(url) as database, database.engine.connect() as connection:
        metadata.create_all(connection)
        for name, given in rows.items():
            connection.execute(metadata.tables[name].insert(), given)
        if connection.dialect.name == "postgresql":
            # Resource classes choose their ids themselves.
            with_ids = {name for name, given in rows.items() if "id" in given[0]} - {"resource_classes"}
            for name in with_ids:
                connection.exec_driver_sql(f"SELECT setval('{name}_id_seq', 100)")
    return metadata, rows


def kept(url: str, metadata: sa.MetaData, rows: Rows) -> Rows:
    """Read again what was given, in the columns of the old tables."""
    with opened(url) as database, database.engine.connect() as connection:
        return {
            name: [
                {key: row[key] for key in given[0]}
                for row in connection.execute(metadata.tables[name].select()).mappings()
            ]
            for name, given in rows.items()
        }


@pytest.mark.parametrize("shape", SHAPES)
def test_what_db_sync_prints_leads_to_head_and_keeps_every_row(
    command: Command, url: str, shape: str
) -> None:
    metadata, rows = made(url, shape)

    for words in (("db", "sync"), ("db", "online_data_migrations")):
        refused = command("placement-manage", *words, url=url)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert "Traceback" not in refused.stderr
        advised = re.findall(r'"(placement-manage db [^"]+)"', refused.stderr)
        assert advised[0] == "placement-manage db stamp base"
    checked = command("placement-status", "upgrade", "check", url=url)
    assert (checked.returncode, checked.stdout) == (255, "")
    assert "placement-manage db stamp base" in checked.stderr
    done = [command(*line.split(), url=url) for line in advised]

    assert [each.returncode for each in done] == [0, 1, 0, 0], done
    assert not [each for each in done if "Traceback" in each.stdout + each.stderr]
    assert command("placement-manage", "db", "version", url=url).stdout == f"{schema.HEAD}\n"
    assert command("placement-manage", "db", "check", url=url).returncode == 0
    assert command("placement-status", "upgrade", "check", url=url).returncode == 0
    found = kept(url, metadata, rows)
    for name, given in rows.items():
        assert [row for row in found[name] if row in given] == given, name
