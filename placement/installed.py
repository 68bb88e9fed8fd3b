"""The installed extensions, which the tuple in ``placement/extensions/__init__.py`` names.

Their modules are imported by name on demand. So no module of the core imports an extension, options and rules
are read without the imports of handlers, and the package is complete without ``placement/extensions``.
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
    # Python also accepts a leftover folder without its files as a package.
    return tuple(getattr(import_module(PACKAGE), "EXTENSIONS", ()))


@cache
def find_modules(name: str) -> dict[str, ModuleType]:
    """Return the modules of this name by extension, in the order of the tuple."""
    paths = {each: f"{PACKAGE}.{each}.{name}" for each in list_names()}
    return {each: import_module(path) for each, path in paths.items() if find_spec(path)}
