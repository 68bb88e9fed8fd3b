"""The clock of the database, as holds see it: tests move it instead of waiting.

What a hold compares with that clock is one number, ``expires_at``. So the time passes as well if that number
becomes smaller, on every database, for every session and every process of the service, whatever they send.
"""

from collections.abc import Collection

from sqlalchemy import or_, select, update

from placement.db import models
from placement.db.clock import NOW
from placement.db.database import Database
from placement.extensions.claims import tables as claims_tables

_HOLDS = claims_tables.consumer_holds


def now_ms(db: Database) -> int:
    """Return the time of the database in milliseconds since the epoch."""
    return int(db.read(lambda reader: reader.value(select(NOW))))


def let_time_pass(db: Database, seconds: float) -> None:
    """Let all holds be so much nearer to their end."""
    nearer = update(_HOLDS).values(expires_at=_HOLDS.c.expires_at - round(1000 * seconds))
    db.write(lambda tx: tx.change(nearer))


def let_holds_end(
    db: Database, within_ms: int = 0, consumers: Collection[str] | None = None
) -> int:
    """Let the time of holds have come, or come so soon; return of how many.

    :param consumers: theirs; all if None.
    """
    soon = update(_HOLDS).values(expires_at=NOW + within_ms)
    if consumers is not None:
        named = or_(*(models.consumers.c.uuid == uuid for uuid in consumers))
        ids = select(models.consumers.c.id).where(named)
        soon = soon.where(_HOLDS.c.consumer_id.in_(ids))
    return db.write(lambda tx: tx.change(soon))
