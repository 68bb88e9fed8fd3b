"""The files of the web page, and the addresses to which it leads (specification 07 section 7)."""

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from pathlib import PurePosixPath

from webob import Response

from placement.extensions.explorer import links
from placement.schemas.questions import NOTHING
from placement.web.error_responses import NotFoundHere
from placement.web.request import Request
from placement.web.response import empty_response, json_response, link

EXPLORER = "/-/explorer"
FIRST_PAGE = "index.html"
MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
# The policy allows scripts, styles and answers from this service alone, and text never becomes markup.
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


def show_links(request: Request) -> Response:
    """GET /-/links"""
    request.read_query(NOTHING)
    return json_response(request, links.read(request.conf))


def show_file(request: Request) -> Response:
    """GET /-/explorer/, and every file below it"""
    file = _read_files().get(request.path_args.get("path", FIRST_PAGE))
    if file is None:
        raise NotFoundHere
    content, media_type, tag = file
    headers = [("ETag", f'"{tag}"'), ("Cache-Control", "no-cache"), *PROTECTION]
    if tag in request.known_tags():
        return Response(status=304, headerlist=headers, app_iter=[])
    headers += [("Content-Type", media_type), ("Content-Length", str(len(content)))]
    return Response(status=200, headerlist=headers, app_iter=[content])


def lead_to_page(request: Request) -> Response:
    """GET /-/explorer, a redirect, since relative addresses in the page need the slash at the end"""
    response = empty_response(request, status=308, location=link(request, f"{EXPLORER}/"))
    # WSGI requires a type with every status but 204 and 304.
    response.headerlist.append(("Content-Type", MEDIA_TYPES[".html"]))
    return response


@lru_cache(maxsize=1)
def _read_files() -> Mapping[str, tuple[bytes, str, str]]:
    """Return content, media type and tag of the package's files by path; no other file is ever opened."""
    found = {}
    with resources.as_file(resources.files("placement.extensions.explorer") / "page") as folder:
        for path in folder.rglob("*.*"):
            name = PurePosixPath(path.relative_to(folder).as_posix())
            if name.suffix in MEDIA_TYPES:
                content = path.read_bytes()
                tag = hashlib.sha256(content).hexdigest()[:32]
                found[str(name)] = content, MEDIA_TYPES[name.suffix], tag
    return found
