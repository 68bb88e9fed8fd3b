"""The interface of a driver, and the start-up and periodic flow around it.

Specification 05 sections C7, C8.
"""

from __future__ import annotations

import contextlib
import copy
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from placement.client import exceptions as exc
from placement.client import patience
from placement.client.flush import AFTER_RESHAPE
from placement.client.provider_tree import ProviderTree
from placement.client.report import ReportClient

LOG = logging.getLogger(__name__)

_T = TypeVar("_T")

WRITING = "The providers of the node were being written."
"""The note on each error of a flush or a reshape: at start-up such an error is fatal."""


@contextlib.contextmanager
def _writing() -> Iterator[None]:
    """Mark every error inside the block as fatal at start-up."""
    try:
        yield
    except Exception as error:
        error.add_note(WRITING)
        raise


class Driver:
    """The base class of drivers, which say what the nodes of an agent should look like.

    Plug-ins derive from this class or act like it.
    """

    def get_available_nodes(self) -> Mapping[str, str]:
        """Map each node's name to the UUID of its root provider."""
        raise NotImplementedError

    def update_provider_tree(
        self,
        provider_tree: ProviderTree,
        nodename: str,
        allocations: dict[str, dict[str, Any]] | None = None,
    ) -> None:
        """Edit the tree in place so that it shows what the node should look like.

        ``nodename`` is the name of the node's root provider; sharing providers are in the tree as lone roots.
        A provider removed from the tree is deleted. Without ``allocations`` no resource may move: raise
        ReshapeNeeded if one has to. With them, even with none, perform the move: edit the tree and the
        allocations in place, or raise ReshapeFailed with a reason. The method must be repeatable: after
        conflicts it is called again with fresh data.
        """
        raise NotImplementedError


class ResourceTracker:
    """The flow that keeps the providers of an agent's nodes as its driver wants them.

    Conflicts start over, ``max_attempts`` times in all; a reshape continues for ``reshape_timeout_s``
    seconds, since claims on a busy host are conflicts.
    """

    def __init__(
        self,
        report_client: ReportClient,
        driver: Driver,
        *,
        max_attempts: int = patience.ATTEMPTS,
        reshape_timeout_s: float = patience.RESHAPE_TIMEOUT_S,
    ) -> None:
        self._client = report_client
        self._driver = driver
        self._patience = patience.Patience(max_attempts, reshape_timeout_s)

    def available_nodes(self) -> dict[str, str]:
        """Ask the driver for its nodes: name to root provider UUID."""
        nodes = self._driver.get_available_nodes()
        if not isinstance(nodes, Mapping) or not all(
            isinstance(text, str) for pair in nodes.items() for text in pair
        ):
            raise exc.PlacementClientError(
                "get_available_nodes() of the driver must return a mapping of node names to"
                f" provider UUIDs, not {nodes!r}; correct the driver"
            )
        return dict(nodes)

    def update_available_resource(self, context: Any, startup: bool = False) -> None:
        """Update every node; at start-up a failed write is raised and must be fatal.

        A failure before the first write, in the driver or in reading, is logged, so that an agent can start
        before the service does. Later all failures are logged. In both cases the next period tries again. A
        failed reshape is always raised.
        """
        for nodename in self.available_nodes():
            try:
                self.update_node(context, nodename, startup)
            except exc.ReshapeFailed as error:
                LOG.critical("Node %s was not reshaped, do not go on: %s", nodename, error)
                raise
            except exc.ReshapeNeeded as error:
                LOG.error("Node %s is left as it is. %s", nodename, error)
            except Exception as error:
                if startup and WRITING in getattr(error, "__notes__", ()):
                    raise
                expected = isinstance(error, exc.PlacementClientError)
                text = "Node %s was not updated, the next period tries again: %s"
                LOG.error(text, nodename, error, exc_info=None if expected else error)

    def update_node(self, context: Any, nodename: str, startup: bool = False) -> None:
        """Bring one node to the state that the driver wants; conflicts start a new attempt.

        ReshapeNeeded is passed on unless at ``startup``. ValueError for a name that the driver
        does not have.
        """
        nodes = self.available_nodes()
        if nodename not in nodes:
            raise ValueError(f"The driver has no node {nodename}")
        self.redrive(context, lambda: self._attempt(context, nodename, nodes[nodename], startup))

    def _attempt(self, context: Any, nodename: str, uuid: str, startup: bool) -> None:
        tree = self._client.get_provider_tree_and_ensure_root(context, uuid, name=nodename)
        try:
            wanted = self.wanted_tree(tree, nodename)
        except exc.ReshapeNeeded:
            if not startup:
                raise
            with _writing():
                self.reshape(context, nodename, uuid)
        else:
            with _writing():
                self._client.update_from_provider_tree(context, wanted)

    # ---- the parts, which the offline upgrade uses too

    def wanted_tree(self, tree: ProviderTree, nodename: str) -> ProviderTree:
        """Have the driver edit a copy of the tree; ReshapeNeeded if resources must move."""
        wanted = copy.deepcopy(tree)
        self._driver.update_provider_tree(wanted, nodename)
        return wanted

    def reshape(self, context: Any, nodename: str, uuid: str) -> None:
        """Move inventories and allocations as the driver says.

        Every failure is raised, including faults of the driver and of the connection, because continuing with
        the old shape would hand out resources twice. The error is ReshapeFailed, unless it is a conflict or a
        failure of the flush that names its provider.
        """
        LOG.info("Moving inventories and allocations of node %s to their new providers", nodename)
        try:
            wanted, allocations = self._client.get_tree_and_allocations(context, uuid)
            self._driver.update_provider_tree(wanted, nodename, allocations=allocations)
            self._client.update_from_provider_tree(context, wanted, allocations, keeps_created=True)
        except exc.ReshapeNeeded as error:
            raise exc.ReshapeFailed(
                f"the driver asked for a reshape of node {nodename} although it was given the"
                " allocations to perform it; this is a fault of the driver"
            ) from error
        except (exc.PlacementAPIConflict, exc.ResourceProviderUpdateFailed, exc.ReshapeFailed):
            raise
        except Exception as error:
            if AFTER_RESHAPE in getattr(error, "__notes__", ()):
                unfinished = exc.ResourceProviderSyncFailed(f"node {nodename}: {error!r}")
                unfinished.hint = AFTER_RESHAPE
                raise unfinished from error
            raise exc.ReshapeFailed(f"node {nodename}: {error!r}") from error

    def redrive(self, context: Any, attempt: Callable[[], _T]) -> _T:
        """Repeat an attempt while it ends in conflicts; after a failure, undo its preparations."""
        try:
            return self._patience.redrive(attempt)
        except BaseException:  # BaseException, so that Ctrl-C does not leave inventories closed.
            self._client.take_back(context)
            raise
