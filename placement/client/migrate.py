"""The offline step of an upgrade: a reshape while the agents are down (specification 05 section C9)."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from placement.client import exceptions as exc
from placement.client.patience import RESHAPE_TIMEOUT_S
from placement.client.report import ReportClient
from placement.client.tracker import Driver, ResourceTracker

LOG = logging.getLogger(__name__)

ABSENT = "absent"
UNCHANGED = "unchanged"
RESHAPED = "reshaped"


def migrate_compute_inventory(
    context: Any,
    report_client: ReportClient,
    driver: Driver,
    nodenames: Iterable[str] | None = None,
    *,
    reshape_timeout_s: float = RESHAPE_TIMEOUT_S,
) -> dict[str, str | Exception]:
    """Reshape the nodes that need a reshape, and do not write to the others.

    Returns for each node ``'absent'`` (unknown to the service), ``'unchanged'``, ``'reshaped'`` or the
    exception that ended it. A second run finds every node unchanged. ``nodenames`` of None stands for all
    nodes of the driver. Raises ValueError for a node that the driver does not have, and for a driver without
    nodes.
    """
    tracker = ResourceTracker(report_client, driver, reshape_timeout_s=reshape_timeout_s)
    nodes = tracker.available_nodes()
    chosen = list(nodes) if nodenames is None else list(dict.fromkeys(nodenames))
    if not nodes:
        raise ValueError("The driver has no nodes, so nothing was compared")
    unknown = [name for name in chosen if name not in nodes]
    if unknown:
        raise ValueError(f"The driver has no node {', '.join(unknown)}")
    results: dict[str, str | Exception] = {}
    for name in chosen:
        try:
            results[name] = _migrate(context, report_client, tracker, name, nodes[name])
        except Exception as error:
            LOG.error("Node %s was not migrated: %s", name, error)
            results[name] = error
    return results


def _migrate(
    context: Any, client: ReportClient, tracker: ResourceTracker, name: str, uuid: str
) -> str:
    reshaping = False

    def attempt() -> str:
        nonlocal reshaping
        if not client.get_providers_in_tree(context, uuid):
            return ABSENT
        tree = client.get_provider_tree_and_ensure_root(context, uuid, name=name)
        try:
            wanted = tracker.wanted_tree(tree, name)
        except exc.ReshapeNeeded:
            reshaping = True
            tracker.reshape(context, name, uuid)
        else:
            if reshaping:
                # The reshape of an earlier attempt succeeded and a later write met a conflict, so the rest is
                # done now.
                client.update_from_provider_tree(context, wanted)
        return RESHAPED if reshaping else UNCHANGED

    return tracker.redrive(context, attempt)
