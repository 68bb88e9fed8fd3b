"""``placement-manage capacity record``, which records how many more of each shape fit (07 section 3.2)."""

import json
import sys

from oslo_config import cfg

from placement.advice import NotConfigured
from placement.command import Command, CommandAction
from placement.db import provider_rows
from placement.db.database import Database
from placement.printable import escape_unprintable

RECORDED, TROUBLE = 0, 1


def record(conf: cfg.ConfigOpts, database: Database, as_json: bool = False) -> int:
    """Count and record the shapes of the configuration, print them, and return the exit code."""
    # The search imports NumPy, which no other command needs.
    from placement.extensions.questions import capacity_records, shapes
    from placement.objects.picture import Picture

    try:
        given = shapes.read(conf)
    except NotConfigured as error:
        print(*error.args, sep="\n", file=sys.stderr)
        return TROUBLE
    if not given:
        print("[insight]/shapes_file names no shapes.", file=sys.stderr)
        return TROUBLE
    # Without this check a count of 0 would mean that everything is full.
    if not database.read(provider_rows.any_exists):
        print("The database has no resource providers; nothing was recorded.", file=sys.stderr)
        return TROUBLE
    picture = Picture(database, conf.placement_database.finish_after)
    avoid = frozenset(conf.insight.avoid)
    counts = capacity_records.record(database, picture, given, avoid, conf.insight.work_factor)
    for name, count in counts.items():
        shown = escape_unprintable(name)
        if count is None:
            print(f"{shown}: not counted to the end, not recorded", file=sys.stderr)
        elif not as_json:
            print(f"{shown}: {count}")
    if as_json:
        print(json.dumps({"recorded": counts}, indent=2))
    return TROUBLE if None in counts.values() else RECORDED


COMMANDS = (
    Command(
        "capacity",
        "Record how many more of each shape of [insight]/shapes_file fit",
        [
            CommandAction(
                "record",
                "Count and record the shapes, for /-/capacity/history; records are kept for a year.",
                record,
            )
        ],
    ),
)
