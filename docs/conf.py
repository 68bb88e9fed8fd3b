"""Configuration of Sphinx: ``sphinx-build -W -b html docs docs/_build``."""

import logging
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]

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
    "citations",
    "openapi_page",
    "reference_directives",
]
exclude_patterns = ["_build"]
templates_path: list[str] = []

html_theme = "furo"
html_title = f"Placement {VERSION}"
html_static_path = ["_static"]
html_css_files = ["placement.css"]
html_theme_options = {"navigation_with_keys": True}
html_copy_source = False
html_show_sphinx = False

# The button copies what is typed, neither prompts nor output.
copybutton_exclude = ".linenos, .gp, .go"

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
python_maximum_signature_line_length = 88
