"""The audit against Nova: consumers that it does not know, and servers with resources on another host.

Specification 07 section 8.1.
"""

import os
from collections.abc import Mapping, Sequence

from keystoneauth1 import exceptions as keystone_exceptions

from placement.client import connection
from placement.client.exceptions import NotAnswered
from placement.client.nova import TYPES, Nova, NovaConsumer, PlaceHidden
from placement.cmd.audit import AuditError, Holder, Misplaced, Report, holders
from placement.cmd.places import Places
from placement.db.database import Database


def ask(database: Database, cloud: str | None) -> Report:
    """Compare the ledger with the Nova of a cloud of clouds.yaml, or of the environment."""
    name = cloud or os.environ.get("OS_CLOUD")
    try:
        adapter = (
            connection.of_cloud(name, "compute") if name else connection.of_environment("compute")
        )
        return compare_with_nova(database, Nova(adapter))
    except PlaceHidden as error:
        raise AuditError(f"{error}: the account must be an administrator's") from error
    except (connection.NoCloud, NotAnswered, keystone_exceptions.ClientException) as error:
        words = error.error if isinstance(error, NotAnswered) else str(error)
        raise AuditError(f"Nova cannot be asked: {words}") from error


def compare_with_nova(database: Database, nova: Nova) -> Report:
    """Compare the ledger with what Nova says.

    :raises AuditError: this may be the Nova of another cloud
    """
    # The ledger is read first, so that a consumer that claims afterwards cannot look like a leak.
    held = [holder for holder in holders(database) if holder.type in TYPES]
    existing = {consumer.uuid: consumer for consumer in nova.consumers()}
    # The places are read after the servers: a new host has a provider before it has a server.
    places = Places(database)
    _require_same_cloud(held, existing, places)
    known = [(holder, existing[holder.uuid]) for holder in held if holder.uuid in existing]
    # A server that the list lacks is requested by itself before it counts as a leak.
    leaks = [h for h in held if h.uuid not in existing and not nova.knows(h.uuid)]
    needy = {consumer.uuid for consumer in existing.values() if consumer.must_hold}
    needy -= {holder.uuid for holder in held}
    wrong = [found for each in known if (found := _compare(*each, places))]
    wrong = [found for each in wrong if (found := _compare_again(each, nova, places))]
    if needy or wrong:
        # A consumer that claimed meanwhile is not missing, and one that changed may have moved.
        now = {holder.uuid: holder for holder in holders(database)}
        needy -= now.keys()
        wrong = [each for each in wrong if now.get(each.holder.uuid) == each.holder]
    return Report(
        len(held),
        leaks,
        sorted(needy),
        [each for each in wrong if each.is_placed],
        [each for each in wrong if not each.is_placed],
        [holder.uuid for holder, consumer in known if consumer.nodes is None],
        places.names,
    )


def _require_same_cloud(
    held: Sequence[Holder], existing: Mapping[str, NovaConsumer], places: Places
) -> None:
    """Refuse a Nova that may belong to another cloud, since it does not know the consumers of this one."""
    if held and not any(holder.uuid in existing for holder in held):
        raise AuditError(
            f"Nova knows none of the {len(held)} consumers that hold something here, so nothing was"
            " compared: is it the Nova of this cloud (OS_REGION_NAME, OS_AUTH_URL)?"
        )
    nodes = {consumer.node for consumer in existing.values() if consumer.node}
    if nodes and not any(places.tree(node) for node in nodes):
        raise AuditError(
            f"None of the {len(nodes)} hosts on which Nova has servers is a resource provider here"
            f" ({min(nodes)} for one), so nothing was compared: is it the Nova of this cloud"
            " (OS_REGION_NAME, OS_AUTH_URL)?"
        )


def _compare(holder: Holder, consumer: NovaConsumer, places: Places) -> Misplaced | None:
    """Compare a consumer's allocations with its host; return None if they agree or a move is under way."""
    if consumer.nodes is None:
        return None
    allowed = places.own(consumer.nodes)
    own = {uuid: resources for uuid, resources in holder.held.items() if uuid in allowed}
    elsewhere = {uuid: resources for uuid, resources in holder.held.items() if uuid not in allowed}
    # A server without allocations in its own tree is only reported: the audit must not remove all that it
    # has.
    is_placed = consumer.node is None or not own.keys().isdisjoint(places.tree(consumer.node))
    return Misplaced(holder, consumer, own, elsewhere, is_placed) if elsewhere else None


def _compare_again(found: Misplaced, nova: Nova, places: Places) -> Misplaced | None:
    """Compare again with Nova's present data of this one server, unless the finding is only reported."""
    uuid = found.holder.uuid
    if not found.is_placed:
        return found
    again = next((each for each in nova.consumers(uuid) if each.uuid == uuid), None)
    return again and _compare(found.holder, again, places)
