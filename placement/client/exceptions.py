"""The exceptions of the client (specification 05 section C2).

An exception that stands for an error declared by the service, and means the same, has that error's name:
``InventoryInUse`` here, ``ConsumerConflict`` in ``claims.py``. The client does not import the service.

A request that was not answered (no connection, a timeout, no token, no endpoint) is :class:`NotAnswered`, or
the class of error that the sender declares; the exception of keystoneauth1 is its ``__cause__``.
"""

from __future__ import annotations


class PlacementClientError(Exception):
    """Base of every failure and signal of this library.

    ``error`` is text for people; ``request_id`` names the request in the log of the service. ``uuid`` and
    ``generation`` (of a provider), ``name``, ``consumer_uuid`` and ``url`` describe the subject of the error,
    as far as it is known; ``status`` is the status of the answer, if there was an answer.
    """

    summary = "Placement client error"
    hint = ""

    def __init__(
        self,
        error: object = "",
        *,
        uuid: str = "",
        generation: int | None = None,
        name: str = "",
        consumer_uuid: str = "",
        url: str = "",
        request_id: str | None = None,
        status: int | None = None,
    ) -> None:
        super().__init__(error)
        self.error = str(error)
        self.uuid = uuid
        self.generation = generation
        self.name = name
        self.consumer_uuid = consumer_uuid
        self.url = url
        self.request_id = request_id
        self.status = status

    def _name_subject(self) -> str:
        """Return the words that name the failed object, to follow the summary."""
        if self.name and self.uuid:
            return f" {self.name} ({self.uuid})"
        return f" {self.consumer_uuid or self.name or self.uuid}".rstrip()

    def __str__(self) -> str:
        text = self.summary + self._name_subject()
        if self.error:
            text += f": {self.error}"
        if self.request_id:
            text += f" (request {self.request_id})"
        return f"{text} {self.hint}".rstrip()


class NotAnswered(PlacementClientError):
    """The service was not reached, or its answer was lost: the request may have been carried out."""

    summary = "The service did not answer"


class EmptyName(PlacementClientError):
    """An empty name or uuid was given. Nothing was sent: the request would have asked for everything."""

    summary = "An empty name or uuid selects nothing"


class ReshapeNeeded(PlacementClientError):
    """A driver has to move inventory and must be called again with allocations.

    This is a signal, not a failure.
    """

    summary = "Inventory in use has to move to another provider or resource class"
    hint = (
        "Reshaping happens when the agent starts, or offline with"
        " placement-migrate-compute-inventory: restart the agent or run that command."
    )


class ReshapeFailed(PlacementClientError):
    """A reshape did not succeed, for a reason other than a conflict."""

    summary = "Reshape of the provider tree failed"
    hint = (
        "Inventories and allocations are as they were before the request, unless the connection"
        " broke while it ran. Correct the cause and start again; the flow is repeatable."
    )


class PlacementAPIConflict(PlacementClientError):
    """Another client wrote meanwhile. The picture is stale: read again and start over."""

    summary = "The view of the service is stale"
    hint = "Read the provider tree again and repeat the change."


class ReshapeConflict(PlacementAPIConflict):
    """A provider or a consumer changed between the reading and the reshape."""

    summary = "A provider or consumer changed while the reshape was prepared"


PlacementReshapeConflict = ReshapeConflict


class ResourceProviderUpdateConflict(PlacementAPIConflict):
    """A generation conflict on one provider."""

    summary = "Another client changed resource provider"

    def _name_subject(self) -> str:
        return f" {self.uuid} (generation {self.generation} was sent)"


class ResourceProviderUpdateFailed(PlacementClientError):
    """A provider could not be brought to the wanted state."""

    summary = "Update of a resource provider failed"
    hint = "Correct the cause and repeat; what is written already is recognised."

    def _name_subject(self) -> str:
        return f" at {self.url}" if self.url else ""


class ResourceProviderSyncFailed(ResourceProviderUpdateFailed):
    """The service could not be brought to the wanted tree; the cause is chained."""

    summary = "The service was not brought to the wanted provider tree"

    def _name_subject(self) -> str:
        return f" (provider {self.uuid})" if self.uuid else ""


class InventoryInUse(ResourceProviderUpdateFailed):
    """An inventory to be removed still has allocations."""

    summary = "Inventory to be removed is in use"
    hint = "Move its allocations with a reshape, or delete them, then repeat."

    def _name_subject(self) -> str:
        return f" (provider {self.uuid})" if self.uuid else ""


class ResourceProviderRetrievalFailed(PlacementClientError):
    """Providers or inventories could not be read."""

    summary = "Could not read resource provider"


class ResourceProviderAggregateRetrievalFailed(PlacementClientError):
    """The aggregates of a provider could not be read."""

    summary = "Could not read the aggregates of resource provider"


class ResourceProviderTraitRetrievalFailed(PlacementClientError):
    """The traits of a provider could not be read."""

    summary = "Could not read the traits of resource provider"


class ResourceProviderAllocationRetrievalFailed(PlacementClientError):
    """The allocations against a provider could not be read."""

    summary = "Could not read the allocations against resource provider"


class ConsumerAllocationRetrievalFailed(PlacementClientError):
    """The allocations of a consumer could not be read."""

    summary = "Could not read the allocations of consumer"


class ResourceProviderCreationFailed(PlacementClientError):
    """A provider could not be created, for instance because its name is taken."""

    summary = "Could not create resource provider"


class ResourceProviderDeletionFailed(PlacementClientError):
    """A provider could not be deleted."""

    summary = "Could not delete resource provider"


class ResourceProviderInUse(PlacementClientError):
    """A provider to be deleted has allocations or children."""

    summary = "Resource provider to be deleted is in use"
    hint = "Move or delete its allocations and children first."


class TraitCreationFailed(PlacementClientError):
    """A trait could not be created."""

    summary = "Could not create trait"


class TraitRetrievalFailed(PlacementClientError):
    """Traits could not be looked up."""

    summary = "Could not look up traits"


class InvalidResourceClass(PlacementClientError):
    """A resource class is not known to the service and could not be created."""

    summary = "Could not create resource class"
