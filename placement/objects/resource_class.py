"""Resource classes: kinds of resource, standard and custom (contract 02 section 8)."""

from placement import errors
from placement.db import class_rows, provider_rows
from placement.db.api import Database, Transaction
from placement.db.class_rows import ClassRow


class ClassNotFound(errors.NotFound):
    """No class has the name."""

    text = "No such resource class {name}."


class ClassExists(errors.Conflict):
    """The name of the new class is taken."""

    text = "Conflicting resource class already exists: {name}"


class NewClassNameTaken(errors.Conflict):
    """Another class has the name that this one was to get."""

    text = "Resource class already exists: {name}"


class StandardClassNotUpdated(errors.BadRequest):
    """Standard classes keep their names."""

    text = "Cannot update standard resource class {name}"


class StandardClassNotDeleted(errors.BadRequest):
    """Standard classes stay."""

    text = "Error in delete resource class: Cannot delete standard resource class {name}."


class ClassInUse(errors.Conflict):
    """Some provider has inventory of the class, with or without allocations."""

    text = "Error in delete resource class: Class is in use in inventory: {name}"


def every(db: Database) -> list[ClassRow]:
    """Return all classes: the standard ones in published order, then custom ones by age."""
    return db.read(class_rows.every)


def show(db: Database, name: str) -> ClassRow:
    """Return the class.

    :raises ClassNotFound:
    """
    found = db.read(lambda connection: class_rows.get(connection, name))
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
    if db.read(lambda connection: class_rows.get(connection, name)) is not None:
        return False
    return db.write(lambda tx: class_rows.insert_custom(tx, name))


def rename(db: Database, name: str, new_name: str) -> None:
    """Give a custom class another name; its inventories and allocations follow.

    :raises ClassNotFound:
    :raises StandardClassNotUpdated: also if the new name is taken.
    :raises NewClassNameTaken:
    """
    db.write(lambda tx: _rename(tx, name, new_name))


def _rename(tx: Transaction, name: str, new_name: str) -> None:
    found = class_rows.get(tx, name, lock=True)
    if found is None:
        raise ClassNotFound(name=name)
    if not name.startswith(class_rows.CUSTOM_PREFIX):
        raise StandardClassNotUpdated(name=name)
    if new_name == name:
        return
    if class_rows.get(tx, new_name) is not None:
        raise NewClassNameTaken(name=new_name)
    class_rows.rename(tx, found.id, new_name)
    provider_rows.touch_with_class(tx, found.id)


def delete(db: Database, name: str) -> None:
    """Delete a custom class that no provider has inventory of.

    :raises ClassNotFound:
    :raises StandardClassNotDeleted:
    :raises ClassInUse:
    """
    db.write(lambda tx: _delete(tx, name))


def _delete(tx: Transaction, name: str) -> None:
    found = class_rows.get(tx, name, lock=True)
    if found is None:
        raise ClassNotFound(name=name)
    if not name.startswith(class_rows.CUSTOM_PREFIX):
        raise StandardClassNotDeleted(name=name)
    if class_rows.is_in_inventory(tx, found.id):
        raise ClassInUse(name=name)
    class_rows.delete_class(tx, found.id)
