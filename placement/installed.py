"""The installed extensions, which the tuple in ``placement/extensions/__init__.py`` names.

Their modules are imported by name on demand. So no module of the core imports an extension, options and rules
are read without the imports of handlers, and the package is complete without ``placement/extensions``.
"""

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

PACKAGE = "placement.extensions"


class ExtensionNotUsable(LookupError):
    """An extension that the tuple names, or that another one needs, is missing or cannot be imported."""


def list_names() -> tuple[str, ...]:
    """Return the names of the installed extensions, in the order of the tuple."""
    if find_spec(PACKAGE) is None:
        return ()
    # Python also accepts a leftover folder without its files as a package.
    return tuple(getattr(import_module(PACKAGE), "EXTENSIONS", ()))


@cache
def find_modules(name: str) -> dict[str, ModuleType]:
    """Return the modules of this name by extension, of those that have one, in the order of the tuple."""
    found = ((each, _import_if_there(each, name)) for each in list_names())
    return {each: module for each, module in found if module is not None}


def _import_if_there(extension: str, name: str) -> ModuleType | None:
    if find_spec(f"{PACKAGE}.{extension}") is None:
        raise ExtensionNotUsable(
            f"the extension {extension} is not installed, and EXTENSIONS in placement/extensions/__init__.py "
            "names it; install the package again"
        )
    path = f"{PACKAGE}.{extension}.{name}"
    try:
        return import_module(path) if find_spec(path) else None
    except ImportError as error:
        reason = " ".join(str(error).split())
        raise ExtensionNotUsable(f"the extension {extension} cannot be loaded: {reason}") from error
