"""Holds: the list of held consumers, and their confirmation (specification 09 section 5)."""

from collections.abc import Mapping, Sequence

from placement import errors, telemetry
from placement.db import ledger_rows, ledger_writes
from placement.db.database import Database, Transaction
from placement.extensions.claims import expiry, hold_rows
from placement.objects.replacement import ConsumerConflict


class HoldExpired(errors.Conflict):
    """The hold of a consumer has expired, or never existed."""

    code = "placement.hold_expired"
    reason = "hold_expired"
    text = "Consumer {uuid} is not held: its hold has expired, or was ended before."
    uuid: str


def confirm(db: Database, consumers: Mapping[str, int | None]) -> dict[str, int]:
    """Turn the holds of consumers into lasting claims, all or none; return their generations.

    :param consumers:

    by uuid, the generation that the client read; None accepts any.

    :raises HoldExpired: 409, for the first consumer without a hold
    :raises ConsumerConflict: 409, for the first consumer with another generation
    """
    generations = db.write(lambda tx: _confirm(tx, consumers))
    telemetry.HOLDS.count("confirmed", number=len(generations))
    return generations


def _confirm(tx: Transaction, consumers: Mapping[str, int | None]) -> dict[str, int]:
    # From this lock on no other transaction removes or steps the consumers, so exactly one of confirmation
    # and expiry wins.
    ledger_writes.lock_consumers(tx, consumers)
    reading = ledger_rows.read(tx, {"consumers": [*consumers]})
    held = hold_rows.find_valid(tx, consumers)
    for uuid, given in consumers.items():
        record, hold = reading.consumers.get(uuid), held.get(uuid)
        if record is None:
            raise HoldExpired(uuid=uuid)
        if given is not None and given != record.generation:
            raise ConsumerConflict(expected=record.generation, given=given)
        if hold is None or hold.has_expired:
            raise HoldExpired(uuid=uuid)
    records = [reading.consumers[uuid] for uuid in consumers]
    expiry.keep_allocations(tx, records, reading)
    return {record.uuid: record.generation + 1 for record in records}


def list_holds(
    db: Database, limit: int, *, project: str | None, group: str | None, after: str | None
) -> Sequence[hold_rows.ShownHold]:
    """Return the held consumers and the ends of their holds, in the order of their uuids.

    :param after: the uuid of the last consumer of the previous page.
    """
    return db.read(lambda reader: hold_rows.list_valid(reader, limit, project, group, after))
