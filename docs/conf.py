"""Configuration of Sphinx: ``sphinx-build -W -b html docs docs/_build``."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]

from placement.version import VERSION  # noqa: E402

project = "Placement"
author = "The authors of Placement"
copyright = author
version = release = VERSION

extensions = ["sphinx.ext.autodoc", "reference_directives"]
exclude_patterns = ["_build"]
templates_path: list[str] = []

html_theme = "alabaster"
html_static_path = ["_static"]
html_css_files = ["placement.css"]
html_theme_options = {
    "description": "What a cloud has, who uses it, and which hosts could take a request right now",
    "fixed_sidebar": True,
    "page_width": "1100px",
    "sidebar_width": "240px",
}
html_sidebars = {"**": ["about.html", "searchbox.html", "navigation.html"]}
html_copy_source = False

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
python_maximum_signature_line_length = 88
