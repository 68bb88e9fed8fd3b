"""Resource classes: kinds of resource, standard and custom (specification 02 section 8)."""

import os_resource_classes

from placement import errors
from placement.db import class_rows, writes
from placement.db.change import Change
from placement.db.class_rows import ClassRow
from placement.db.database import Database, Transaction


class ClassNotFound(errors.NotFound):
    """The class does not exist."""

    text = "No such resource class {name}."
    name: str


class ClassExists(errors.Conflict):
    """The name of the new class is taken."""

    reason = "duplicate_name"
    text = "Conflicting resource class already exists: {name}"
    name: str


class NewClassNameTaken(errors.Conflict):
    """Another class has the new name of this class."""

    reason = "duplicate_name"
    text = "Resource class already exists: {name}"
    name: str


class ClassInUse(errors.Conflict):
    """A provider has inventory of the class, with or without allocations."""

    reason = "resource_class_in_use"
    text = "Error in delete resource class: Class is in use in inventory: {name}"
    name: str


def every(db: Database) -> list[ClassRow]:
    """Return all classes: the standard ones in published order, then custom ones by age."""
    return db.read(class_rows.read_all)


def show(db: Database, name: str) -> ClassRow:
    """Return the class.

    :raises ClassNotFound:
    """
    found = db.read(lambda reader: class_rows.get(reader, name))
    if found is None:
        raise ClassNotFound(name=name)
    return found


def create(db: Database, name: str) -> None:
    """Create a custom class.

    :raises ClassExists:
    """
    if not db.write(lambda tx: class_rows.insert_custom(tx, name)):
        raise ClassExists(name=name)


def ensure(db: Database, name: str) -> bool:
    """Create a custom class unless it exists; return whether it was created."""
    if db.read(lambda reader: class_rows.get(reader, name)) is not None:
        return False
    return db.write(lambda tx: class_rows.insert_custom(tx, name))


def rename(db: Database, name: str, new_name: str) -> None:
    """Give a custom class another name; its inventories and allocations follow.

    :raises ClassNotFound:
    :raises errors.StandardName: also if the new name is taken.
    :raises NewClassNameTaken:
    """

    def work(tx: Transaction) -> None:
        class_id = _lock_custom(tx, name, "new name")
        if new_name == name:
            return
        if class_rows.get(tx, new_name) is not None:
            raise NewClassNameTaken(name=new_name)
        class_rows.rename(tx, class_id, new_name)
        writes.finish(tx, Change(renamed_classes=[class_id]))

    db.write(work)


def delete(db: Database, name: str) -> None:
    """Delete a custom class that no provider has inventory of.

    :raises ClassNotFound:
    :raises errors.StandardName:
    :raises ClassInUse:
    """

    def work(tx: Transaction) -> None:
        class_id = _lock_custom(tx, name, "class")
        if class_rows.is_in_inventory(tx, class_id):
            raise ClassInUse(name=name)
        class_rows.delete_class(tx, class_id)

    db.write(work)


def _lock_custom(tx: Transaction, name: str, rule: str) -> int:
    """Lock a custom class and return its id; ``rule``: the rule of :class:`errors.StandardName`."""
    found = class_rows.get(tx, name, lock=True)
    if found is None:
        raise ClassNotFound(name=name)
    if not os_resource_classes.is_custom(name):
        raise errors.StandardName.for_rule(rule, name=name)
    return found.id
