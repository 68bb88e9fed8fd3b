"""The OpenAPI document as a page of its own, by Swagger UI; the page loads nothing from other hosts."""

import json
import shutil
from importlib import resources
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

DOCUMENT = Path(__file__).parents[1] / "openapi.json"
FOLDER = "openapi"
ASSETS = ("swagger-ui.css", "swagger-ui-bundle.js")
PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Placement: OpenAPI</title>
<link rel="stylesheet" href="swagger-ui.css">
<style>
body {{ margin: 0; }}
nav {{ font-family: sans-serif; padding: 0.7em 1.3em; }}
.swagger-ui .wrapper {{ padding: 0 1em; }}
.swagger-ui .opblock-summary-path {{ overflow-wrap: anywhere; }}
@media (max-width: 46em) {{
  .swagger-ui .opblock-tag {{ flex-wrap: wrap; }}
  .swagger-ui .opblock-tag small {{ order: 1; flex: 0 0 100%; padding: 0; }}
}}
</style>
</head>
<body>
<nav><a href="../api/index.html">Placement: API</a></nav>
<main id="swagger-ui"></main>
<script src="swagger-ui-bundle.js"></script>
<script>
SwaggerUIBundle({{
  spec: {document},
  dom_id: "#swagger-ui",
  deepLinking: true,
  docExpansion: "list",
  defaultModelsExpandDepth: 0,
  supportedSubmitMethods: [],
  validatorUrl: null,
}});
</script>
</body>
</html>
"""


def write_page(app: Sphinx, failure: Exception | None) -> None:
    """Write the page and the files that it needs, beside the other pages."""
    if failure is not None or app.builder.format != "html":
        return
    folder = Path(app.outdir) / FOLDER
    folder.mkdir(exist_ok=True)
    for name in ASSETS:
        with resources.as_file(resources.files("swagger_ui") / "static" / name) as asset:
            shutil.copy(asset, folder)
    # The document is inside, so that the page works from a folder too; "</" would end the script.
    document = json.dumps(json.loads(DOCUMENT.read_text())).replace("</", "<\\/")
    (folder / "index.html").write_text(PAGE.format(document=document))


def setup(app: Sphinx) -> dict[str, Any]:
    """Write the page when all other pages are written."""
    app.connect("build-finished", write_page)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
