"""The everyday claim: something of one provider for consumers that hold nothing yet.

Who replaces allocations locks their places first, and checks then whether there is room
(:mod:`placement.objects.ledger`). Here that is a condition of the statement that moves the counters, so
that from the lock on the provider to the commit nobody is waited for who is not in the database. What was
read without a lock says beforehand whether it is worth trying; where the condition turns out to be false,
the next attempt takes the other way, which can say why there is no room.

All claims on one host, two processes of eight threads, 8 turns with and without: 1.33 times the claims on
PostgreSQL and 1.17 on MariaDB, with 0.84 and 0.87 of the service's processor time.
"""

from collections.abc import Mapping, Sequence

from placement.db import closing, in_list
from placement.db.consumer_rows import Owner
from placement.db.database import Transaction
from placement.db.ledger_rows import Reading
from placement.objects import capacity, ledger
from placement.objects.consumer import ANY_GENERATION, ConsumerChange
from placement.objects.ledger import Replacement


def is_likely(tx: Transaction, changes: Sequence[ConsumerChange]) -> bool:
    """Whether the changes look like such a claim, so that what their provider has is worth reading."""
    providers = {uuid for change in changes for uuid in change.allocations}
    known = any(change.generation not in (None, ANY_GENERATION) for change in changes)
    return tx.attempt == 1 and len(providers) == 1 and not known


def is_written(
    tx: Transaction, replaced: Replacement, owners: Mapping[str, Owner], reading: Reading
) -> bool:
    """Write it, with all that closes a change, if it is such a claim and there was room for it.

    The last writes of a transaction, whose consumers are taken.

    :returns: False if nothing was written.
    :raises StaleRead: there is no room any more, or the provider is not there.
    """
    if not reading.stock or replaced.removed:
        return False
    inventories = capacity.by_key(reading.stock)
    amounts = {demand.key: demand.amount for demand in replaced.demands}
    if not len(amounts) == len(replaced.demands) <= in_list.SIZES[-1]:
        return False
    if not capacity.has_room(replaced.demands, inventories, ledger.NOTHING):
        return False
    ledger.write_allocations(tx, replaced)
    (provider_id,) = replaced.provider_ids
    taken = [(inventories[place].id, amount) for place, amount in amounts.items()]
    closing.claim(tx, provider_id, taken, ledger.owed(replaced, owners))
    return True
