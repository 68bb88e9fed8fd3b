"""Gauges of each consumer's holdings, written while they are read (specification 07 section 6)."""

from collections import Counter
from collections.abc import Iterator

from placement import errors
from placement.db import consumer_rows
from placement.db.consumer_rows import Holdings
from placement.db.database import Database
from placement.extensions.metrics.metric_lines import escape, write_head

NAME = "openstack_placement_consumer_usage"
COMPLETE = "placement_consumer_usage_complete"
NO_TYPE = "unknown"
"""The word for a missing type, as in the usages of a project."""


def write_gauges(db: Database) -> Iterator[bytes]:
    """Yield the gauge of all consumers in Prometheus' text format, a thousand consumers a part.

    No connection is in use while a part is sent, so a slow client does not block others. If the database ends
    the reading, the list ends, and ``placement_consumer_usage_complete`` is 0.
    """
    yield write_head(NAME, "The amount of a resource class that a consumer holds.").encode()
    complete = 1
    try:
        for holdings in consumer_rows.walk_holders(db):
            yield "".join(_write_usages(holdings)).encode()
    except errors.Unavailable:
        # The status is sent already, and a list that ends early would look as if the missing consumers were
        # deleted.
        complete = 0
    yield (write_head(COMPLETE, "1 if all consumers are shown.") + f"{COMPLETE} {complete}\n").encode()


def _write_usages(holdings: Holdings) -> Iterator[str]:
    consumers, amounts = holdings
    held: Counter[tuple[str, str]] = Counter()
    for row in amounts:
        held[row.consumer_uuid, row.class_name] += row.amount
    owners = {
        row.uuid: f'project="{escape(row.project or "")}",type="{escape(row.type_name or NO_TYPE)}"'
        for row in consumers
    }
    for (uuid, class_name), amount in held.items():
        yield f'{NAME}{{consumer="{uuid}",{owners[uuid]},class="{class_name}"}} {amount}\n'
