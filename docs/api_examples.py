"""Write the API reference: every operation, with requests and answers that were really made.

The service runs in this process on an SQLite database in memory. :mod:`docs.api_story` says what
is asked; this module asks it and writes the pages. Run it after a change of the API::

    python -m docs.api_examples

A test compares the pages with what this makes. Only what differs from run to run is replaced:
dates and request ids.
"""

import json
import re
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import webob
from oslo_config import cfg
from oslo_middleware import http_proxy_to_wsgi

from docs.api_calls import Call, Operation, Page
from docs.api_story import PAGES
from placement import conf as configuration
from placement import deploy
from placement.conf import library_defaults
from placement.db import schema
from placement.db.api import Database
from placement.db.engine import make_engine
from placement.web.routes import ROUTES, Action

FOLDER = Path(__file__).parent / "api"
WIDTH = 88
KEPT = 3
"""Entries of a long list that are printed."""
SHOWN_HEADERS = (
    "location",
    "content-type",
    "openstack-api-version",
    "cache-control",
    "last-modified",
    "allow",
)
DATE = "Sat, 21 Nov 2026 12:00:00 GMT"
REQUEST_ID = "req-0f4a9ab5-0a2e-4f0b-a2a0-5c9d3c1f7d11"


def application() -> Any:
    """Return the service on a new database in memory, with noauth2."""
    conf = cfg.ConfigOpts()
    configuration.register_opts(conf)
    library_defaults.set_for(conf)
    conf.register_opts(http_proxy_to_wsgi.OPTS, group="oslo_middleware")
    conf.set_override("connection", "sqlite://", group="placement_database")
    conf.set_override("auth_strategy", "noauth2", group="api")
    conf([], project="placement", default_config_files=[], default_config_dirs=[])
    database = Database(make_engine("sqlite://", sqlite_synchronous=False))
    schema.sync(database)
    return deploy.loadapp(conf, database=database)


# -- asking ------------------------------------------------------------------------------------


def ask(service: Any, call: Call) -> webob.Response:
    """Send one call and check that its answer has the status the story expects."""
    headers = {"X-Auth-Token": "admin", "OpenStack-API-Version": f"placement {call.version}"}
    if call.path == "/reshaper":
        headers["X-Roles"] = "admin,service"
    sent = webob.Request.blank(call.path, method=call.method, headers=headers)
    if call.body is not None:
        sent.body = json.dumps(call.body).encode()
        sent.headers["content-type"] = "application/json"
    answer = sent.get_response(service)
    if answer.status_code != call.status:
        raise AssertionError(f"{call.method} {call.path}: {answer.status} {answer.text}")
    return answer


# -- writing -----------------------------------------------------------------------------------


def pretty(value: Any, indent: int = 0) -> str:
    """Return JSON in which everything that fits stays on one line."""
    flat = json.dumps(value, ensure_ascii=False)
    if len(flat) + indent <= WIDTH or not isinstance(value, dict | list) or not value:
        return flat
    inner = " " * (indent + 2)
    if isinstance(value, dict):
        lines = [
            f"{inner}{json.dumps(name)}: {pretty(part, indent + 2)}" for name, part in value.items()
        ]
        opening, closing = "{", "}"
    else:
        lines = [inner + pretty(part, indent + 2) for part in value]
        opening, closing = "[", "]"
    return f"{opening}\n" + ",\n".join(lines) + f"\n{' ' * indent}{closing}"


def request_text(call: Call) -> str:
    """Return the request as it goes over the wire, without the headers of every client."""
    lines = [
        f"{call.method} {call.path} HTTP/1.1",
        f"OpenStack-API-Version: placement {call.version}",
    ]
    if call.path != "/":
        lines.insert(1, "X-Auth-Token: $TOKEN")
    if call.body is not None:
        lines += ["Content-Type: application/json", "", pretty(call.body)]
    return "\n".join(lines)


def answer_text(answer: webob.Response, shorten: str | None) -> str:
    """Return the answer: status line, the headers worth showing, body."""
    lines = [f"HTTP/1.1 {answer.status}"]
    for name in SHOWN_HEADERS:
        if name in answer.headers:
            value = DATE if name == "last-modified" else answer.headers[name]
            lines.append(f"{name}: {value}")
    if answer.body:
        body = answer.json
        for error in body.get("errors", ()):
            error["request_id"] = REQUEST_ID
        if shorten:
            body[shorten] = body[shorten][:KEPT]
        lines += ["", pretty(body)]
    return "\n".join(lines)


def literal(text: str, language: str) -> list[str]:
    """Return a code block."""
    return [f".. code-block:: {language}", "", *_indented(text), ""]


def _indented(text: str) -> Iterable[str]:
    return (f"   {line}".rstrip() for line in text.split("\n"))


def heading(text: str, mark: str) -> list[str]:
    """Return a title with its underline."""
    return [text, mark * len(text), ""]


def facts(operation: Operation) -> list[str]:
    """Return what the route table says about the operation."""
    actions: tuple[Action, ...] = ROUTES[operation.path][operation.method]
    since = actions[0].since
    rule = actions[0].rule
    lines = [f"Since microversion **1.{since}**."]
    lines.append(f"Policy rule ``placement:{rule}``." if rule else "No token is needed.")
    return [" ".join(lines), ""]


def exchange(service: Any, call: Call) -> list[str]:
    """Return one request with its answer; nothing for a silent step of the story."""
    answer = ask(service, call)
    if call.silent:
        return []
    lines = [call.says, ""] if call.says else []
    lines += literal(request_text(call), "http")
    lines += literal(answer_text(answer, call.shorten), "http")
    if call.shorten:
        lines += [f"Only the first {KEPT} entries of ``{call.shorten}`` are printed here.", ""]
    return lines


def operation_text(service: Any, operation: Operation) -> list[str]:
    """Return the section of one operation."""
    lines = heading(f"{operation.method} {operation.path or '(empty path)'}", "-")
    lines += facts(operation)
    lines += [*textwrap.wrap(operation.text, WIDTH), ""]
    for call in operation.calls:
        lines += exchange(service, call)
    return lines


def page_text(service: Any, page: Page) -> str:
    """Return one page."""
    lines = [".. Written by docs/api_examples.py: change docs/api_story.py, not this file.", ""]
    lines += heading(page.title, "=")
    lines += [*textwrap.wrap(page.text, WIDTH), ""]
    for operation in page.operations:
        lines += operation_text(service, operation)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


def pages() -> dict[str, str]:
    """Return every page by file name, made by one run of the story."""
    service = application()
    return {f"{page.name}.rst": page_text(service, page) for page in PAGES}


def main() -> None:
    """Write the pages."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()
