"""/-/explorer/: the files of the web page (specification 07 section 7)."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import PurePosixPath

from webob import Response

from placement.web.error_responses import NotFoundHere
from placement.web.request import Request
from placement.web.response import empty_response, link

PATH = "/-/explorer"
FIRST_PAGE = "index.html"
MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
# Scripts, styles and answers come from here and from nowhere else, and no text ever becomes markup.
PROTECTION = [
    (
        "Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'",
    ),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
]


@dataclass(frozen=True, slots=True)
class _File:
    content: bytes
    media_type: str
    tag: str


def show_file(request: Request) -> Response:
    """GET /-/explorer/, and every file below it"""
    file = _files().get(request.path_args.get("path", FIRST_PAGE))
    if file is None:
        raise NotFoundHere
    headers = [("ETag", f'"{file.tag}"'), ("Cache-Control", "no-cache"), *PROTECTION]
    if file.tag in request.known_tags():
        return Response(status=304, headerlist=headers, app_iter=[])
    headers += [("Content-Type", file.media_type), ("Content-Length", str(len(file.content)))]
    return Response(status=200, headerlist=headers, app_iter=[file.content])


def lead_to_page(request: Request) -> Response:
    """GET /-/explorer: the addresses inside the page count on the slash."""
    return empty_response(request, status=308, location=link(request, f"{PATH}/"))


@lru_cache(maxsize=1)
def _files() -> Mapping[str, _File]:
    """Return the files of the package by their path; nothing else is ever opened."""
    found = {}
    with resources.as_file(resources.files("placement") / "explorer") as folder:
        for path in folder.rglob("*.*"):
            name = PurePosixPath(path.relative_to(folder).as_posix())
            if name.suffix in MEDIA_TYPES:
                content = path.read_bytes()
                tag = hashlib.sha256(content).hexdigest()[:32]
                found[str(name)] = _File(content, MEDIA_TYPES[name.suffix], tag)
    return found
