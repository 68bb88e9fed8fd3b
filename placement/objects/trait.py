"""Traits, and the traits of providers (specification 02 sections 6 and 7)."""

import re
import time
from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple

import os_traits

from placement import errors
from placement.db import trait_rows, writes
from placement.db.association_rows import TRAITS
from placement.db.change import Change
from placement.db.database import Access, Database, Transaction
from placement.db.trait_rows import TraitQuery, TraitRow
from placement.objects import resource_provider
from placement.printable import find_newest

CUSTOM_NAME = re.compile(r"CUSTOM_[A-Z0-9_]+\Z")
MAX_NAME_LENGTH = 255

READ_EVERY_S = 60.0
"""The longest time between two reads of the list of traits, even if their number is unchanged."""


class TraitNotFound(errors.NotFound):
    """The trait does not exist."""

    text = "No such trait(s): {name}."
    name: str


class InvalidTraitName(errors.BadRequest):
    """The trait is not a custom trait, and only custom traits can be created."""

    reason = "invalid_trait_name"
    text = (
        "The trait is invalid. A valid trait must be no longer than 255 characters, start with the "
        'prefix "CUSTOM_" and use following characters: "A"-"Z", "0"-"9" and "_"'
    )


class TraitInUse(errors.Conflict):
    """A provider has the trait."""

    reason = "trait_in_use"
    text = "The trait {name} is in use by a resource provider."
    name: str


class UnknownTraits(errors.BadRequest):
    """Some of the new traits of a provider do not exist."""

    reason = "unknown_trait"
    about = "names"
    text = "No such trait {names}"
    names: str


class TraitsLost(errors.ConcurrentUpdate):
    """Other requests kept changing the provider or its traits."""

    text = "update conflict: the provider or its traits changed, please try again."


class ProviderTraits(NamedTuple):
    """The traits of one provider and its generation."""

    generation: int
    traits: list[TraitRow]


class Listing(NamedTuple):
    """The names of all traits in id order, and when the last of them was modified, if known."""

    names: list[str]
    modified_at: datetime | None


class EveryTrait:
    """The list of all traits in the memory of a process, which checks on each use whether it is still right.

    Reading 559 rows took 11 of the 11.5 milliseconds of processor time of such a request with PyMySQL.

    :param db: the database of the traits.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        self._kept: tuple[object, Listing] | None = None
        self._read_again_s = 0.0

    def listing(self) -> Listing:
        """Return all traits. One statement if they are unchanged since the last call."""
        if self._db.dialect == "sqlite":
            return self._db.read(_listing)
        kept, now_s = self._kept, time.monotonic()
        # A change of a name by hand does not change the number.
        if kept is None or now_s >= self._read_again_s or kept[0] != self._db.read(trait_rows.digest):
            self._read_again_s = now_s + READ_EVERY_S
            kept = self._kept = self._db.snapshot(lambda tx: (trait_rows.digest(tx), _listing(tx)))
        return kept[1]


def _listing(access: Access) -> Listing:
    rows = trait_rows.read_all(access)
    return Listing([name for name, _ in rows], find_newest(moment for _, moment in rows))


def list_names(db: Database) -> list[str]:
    """Return the names of all traits, the standard ones first. One statement."""
    return db.read(_listing).names


def find(db: Database, query: TraitQuery) -> list[TraitRow]:
    """Return the traits that the query selects. One statement."""
    return db.read(lambda reader: trait_rows.find(reader, query))


def show(db: Database, name: str) -> TraitRow:
    """Return the trait.

    :raises TraitNotFound:
    """
    found = db.read(lambda reader: trait_rows.get(reader, name))
    if found is None:
        raise TraitNotFound(name=name)
    return found


def ensure(db: Database, name: str) -> tuple[TraitRow, bool]:
    """Create a custom trait unless it exists; return it and whether it was created.

    :raises InvalidTraitName: the name is not a custom one, or is standard.
    """
    if len(name) > MAX_NAME_LENGTH or not CUSTOM_NAME.match(name):
        raise InvalidTraitName()
    found = db.read(lambda reader: trait_rows.get(reader, name))
    if found is not None:
        return found, False

    def work(tx: Transaction) -> tuple[TraitRow, bool]:
        created = trait_rows.insert_trait(tx, name)
        found = trait_rows.get(tx, name)
        assert found is not None
        return found, created

    return db.write(work)


def delete(db: Database, name: str) -> None:
    """Delete a custom trait that no provider has.

    :raises TraitNotFound: the trait does not exist, with any name.
    :raises errors.StandardName:
    :raises TraitInUse:
    """

    def work(tx: Transaction) -> None:
        found = trait_rows.get(tx, name, lock=True)
        if found is None:
            raise TraitNotFound(name=name)
        if not os_traits.is_custom(name):
            raise errors.StandardName.for_rule("trait", name=name)
        if trait_rows.is_in_use(tx, found.id):
            raise TraitInUse(name=name)
        trait_rows.delete_trait(tx, found.id)

    db.write(work)


def of_provider(db: Database, provider_uuid: str) -> ProviderTraits:
    """Return the traits of a provider.

    :raises resource_provider.ProviderNotFound:
    """
    generation, rows = resource_provider.read_of(db, provider_uuid, TRAITS.of_provider)
    return ProviderTraits(generation, [TraitRow._make(row) for row in rows])


def replace_of_provider(
    db: Database, provider_uuid: str, names: Collection[str], *, generation: int
) -> ProviderTraits:
    """Replace the traits of a provider; its generation is stepped if the set changes.

    :param generation: the generation that the client has read.
    :raises resource_provider.ProviderNotFound:
    :raises resource_provider.GenerationMoved:
    :raises UnknownTraits:
    """
    wanted = set(names)

    def work(tx: Transaction) -> ProviderTraits:
        provider = resource_provider.lock_one(tx, provider_uuid, generation)
        traits = trait_rows.find_named(tx, wanted)
        unknown = wanted - {trait.name for trait in traits}
        if unknown:
            raise UnknownTraits(names=", ".join(sorted(unknown)))
        present = TRAITS.ids(tx, provider.id)
        if wanted == present.keys():
            return ProviderTraits(generation, traits)
        TRAITS.remove(tx, provider.id, [present[name] for name in present.keys() - wanted])
        TRAITS.add(tx, provider.id, [trait.id for trait in traits if trait.name not in present])
        writes.finish(tx, Change(stepped={1: [provider.as_read]}))
        return ProviderTraits(generation + 1, traits)

    return db.write(work, on_conflict=TraitsLost)


def delete_of_provider(db: Database, provider_uuid: str) -> None:
    """Remove all traits from a provider; its generation is stepped if it had any.

    :raises resource_provider.ProviderNotFound:
    """

    def work(tx: Transaction) -> None:
        provider = resource_provider.lock_one(tx, provider_uuid)
        if TRAITS.remove_all(tx, provider.id):
            writes.finish(tx, Change(stepped={1: [provider.as_read]}))

    db.write(work, on_conflict=TraitsLost)
