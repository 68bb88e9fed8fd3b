"""The extensions that are installed: those that the tuple in ``placement/extensions/__init__.py`` names.

Their modules are imported by name, when they are asked for. So no module of the core imports one, options and
rules are read without what the handlers need, and the package is whole without ``placement/extensions``.
"""

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

PACKAGE = "placement.extensions"


def list_names() -> tuple[str, ...]:
    """Return the names of the installed extensions, in the order of the tuple."""
    if find_spec(PACKAGE) is None:
        return ()
    # Python takes a folder that was left behind, without its files, for a package too.
    return tuple(getattr(import_module(PACKAGE), "EXTENSIONS", ()))


@cache
def find_modules(name: str) -> dict[str, ModuleType]:
    """Return the modules of this name by extension, of those that have one, in the order of the tuple."""
    paths = {each: f"{PACKAGE}.{each}.{name}" for each in list_names()}
    return {each: import_module(path) for each, path in paths.items() if find_spec(path)}
