"""Configuration of Sphinx: ``sphinx-build -W -b html docs docs/_build``."""

import logging
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from placement.version import VERSION  # noqa: E402

# A library of the theme would configure the root logger, and every INFO line would look like a warning.
logging.getLogger().addHandler(logging.NullHandler())

project = "Placement"
author = "The authors of Placement"
copyright = author
version = release = VERSION

extensions = [
    "sphinx.ext.autodoc",
    "myst_parser",
    "sphinx_copybutton",
    "docs._tools.citations",
    "docs._tools.openapi_page",
    "docs._tools.reference_directives",
]
exclude_patterns = ["_build"]
templates_path: list[str] = []

# Section 8 is for commands that only the administrator of the machine may run.
COMMANDS = {
    "placement-api": ("serve the Placement API in one process", 8),
    "placement-manage": ("create, upgrade and check the database of the Placement service", 8),
    "placement-status": ("tell whether the Placement service is ready for an upgrade", 8),
    "placement-compare": ("compare what two Placement services answer", 1),
    "placement-tree": ("export, compare and change trees of resource providers", 1),
    "placement-migrate-compute-inventory": ("move inventory of compute nodes into a tree", 8),
}
man_pages = [
    (f"reference/commands/{name}", name, what, [author], section)
    for name, (what, section) in COMMANDS.items()
]

html_theme = "furo"
html_title = f"Placement {VERSION}"
html_static_path = ["_static"]
html_css_files = ["placement.css"]
html_theme_options = {"navigation_with_keys": True}
html_copy_source = False
html_show_sphinx = False

# The button copies commands, without prompts and output.
copybutton_exclude = ".linenos, .gp, .go"

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
python_maximum_signature_line_length = 88
