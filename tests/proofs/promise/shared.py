"""Requests whose changes of allocations share a transaction, as one order of a player."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import webob

from placement.db.database import Database
from placement.handlers import allocation as handlers
from placement.objects import allocation
from placement.objects.allocation import AllocationChange
from placement.objects.batcher import Participant
from placement.objects.replacement import ConsumerChange
from tests.proofs.promise.stage import Order
from tests.support.service import Service


def change_of(order: Order) -> AllocationChange:
    """Return the change of allocations that an order asks for."""
    uuid = order.path.removeprefix("/allocations").strip("/")
    if order.method == "POST":
        return AllocationChange(handlers._read_consumers(order.body))
    if order.method == "PUT":
        return AllocationChange.of_one(handlers._read_consumer(uuid, order.body))
    consumer = ConsumerChange(uuid, {}, project="", user="")
    return AllocationChange((consumer,), is_deletion=True)


def write_together(db: Database, changes: Sequence[AllocationChange]) -> list[Any]:
    """Write the changes as the thread that leads them does; return for each whether it was written."""
    led = [Participant[AllocationChange, bool](change) for change in changes]
    led[0].led = led
    led[0].answer_together(partial(allocation._write_together, db), alone=False)
    return [each.answer for each in led]


@dataclass(frozen=True)
class Batch:
    """Orders that arrive at one process together: one thread does what their threads would do in turn."""

    orders: Sequence[Order]

    def changes(self) -> list[AllocationChange]:
        """Return the changes that the orders ask for."""
        return [change_of(order) for order in self.orders]

    def send(self, service: Service) -> list[webob.Response]:
        """Write what can be written together, then the others alone; return the answers in order."""
        written = write_together(service.db, self.changes())
        done = partial(webob.Response, status=204)
        return [
            done() if is_written is True else order.send(service)
            for order, is_written in zip(self.orders, written, strict=True)
        ]
