"""Write the API reference: every operation, with requests and answers that were really made.

The service runs in this process on an SQLite database in memory. :mod:`docs._tools.api_story` has the
requests; this module sends them and writes the pages. Run it after a change of the API::

    python -m docs._tools.api_examples

A test compares the pages with the output of this module. Only dates and request ids, which differ
from run to run, are replaced.
"""

import json
import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import webob
from oslo_config import cfg
from oslo_middleware import http_proxy_to_wsgi

from docs._tools import api_fields
from docs._tools.api_calls import Call, Operation, Page
from docs._tools.api_fields import Field, Window
from docs._tools.api_schemas import ALL_ROUTES, ANSWERS, NEWEST, NOTES
from docs._tools.api_story import PAGES
from placement import conf as configuration
from placement import deploy
from placement.conf import library_defaults
from placement.db import schema
from placement.db.database import Database
from placement.db.engine import make_engine
from placement.web.dispatch import Action

FOLDER = Path(__file__).parents[1] / "api"
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
MOMENT = "2026-11-21T12:05:00.000Z"
REQUEST_ID = "req-0f4a9ab5-0a2e-4f0b-a2a0-5c9d3c1f7d11"


def application() -> Any:
    """Return the service on a new database in memory, with noauth2."""
    conf = cfg.ConfigOpts()
    configuration.register_opts(conf)
    library_defaults.set_for(conf)
    conf.register_opts(http_proxy_to_wsgi.OPTS, group="oslo_middleware")
    conf.set_override("connection", "sqlite://", group="placement_database")
    conf.set_override("auth_strategy", "noauth2", group="api")
    conf.set_override("enabled", True, group="insight")
    conf([], project="placement", default_config_files=[], default_config_dirs=[])
    database = Database(make_engine("sqlite://", sqlite_synchronous=False))
    schema.sync(database)
    return deploy.loadapp(conf, database=database)


# -- asking ------------------------------------------------------------------------------------


def ask(service: Any, call: Call) -> webob.Response:
    """Send one call and check that its answer has the status that the story expects."""
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


@dataclass(frozen=True)
class Exchange:
    """A request with its answer."""

    call: Call
    answer: webob.Response

    @property
    def succeeded(self) -> bool:
        """The answer is not an error."""
        return self.answer.status_code < 400

    def shown(self) -> Any:
        """Return the body as it is printed, with a fixed request id; None if empty."""
        if not self.answer.body:
            return None
        body = self.answer.json
        for error in body.get("errors", ()):
            error["request_id"] = REQUEST_ID
        for held in (body.get("hold", {}), *body.get("holds", ())):
            held |= {"expires_at": MOMENT} if held else {}
        if self.call.shorten:
            body[self.call.shorten] = body[self.call.shorten][:KEPT]
        return body


@dataclass
class Told:
    """All requests and answers, by operation."""

    exchanges: dict[tuple[str, str], list[Exchange]] = field(default_factory=dict)
    answers: dict[str, dict[Field, list[Window]]] = field(default_factory=dict)
    """Fields of each kind of answer (:data:`docs._tools.api_schemas.ANSWERS`), measured."""


def tell() -> Told:
    """Carry out the story."""
    service, told = application(), Told()
    for page in PAGES:
        for operation in page.operations:
            found = told.exchanges.setdefault((operation.path, operation.method), [])
            for call in operation.calls:
                found.append(Exchange(call, ask(service, call)))
                if call.versions:
                    measure(service, told, operation, call)
    return told


def measure(service: Any, told: Told, operation: Operation, call: Call) -> None:
    """Send a call at every microversion; record the fields of the answers and each older shape."""
    minors = range(api_fields.first_minor(operation.path, operation.method), NEWEST + 1)
    asked = {minor: replace(call, version=f"1.{minor}", says="") for minor in minors}
    answers = {minor: ask(service, each) for minor, each in asked.items()}
    bodies = {minor: answer.json for minor, answer in answers.items()}
    kind = component(operation)
    assert kind is not None
    told.answers[kind] = api_fields.measured(bodies)
    exchanges = told.exchanges[operation.path, operation.method]
    for (since, until), _body in api_fields.shapes(bodies)[1:]:
        says = f"At 1.{since}:" if since == until else f"From 1.{since} to 1.{until}:"
        exchanges.append(Exchange(replace(asked[until], says=says, silent=False), answers[until]))


def component(operation: Operation) -> str | None:
    """Return the kind of the answer of an operation at the newest microversion."""
    action = ALL_ROUTES[operation.path][operation.method][-1]
    return next((each for each in ANSWERS[action.handler.__name__].values() if each), None)


# -- writing -----------------------------------------------------------------------------------


def pretty(value: Any, indent: int = 0) -> str:
    """Return JSON in which a value that fits on one line stays on one line."""
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
    """Return the request as it goes over the wire, without headers that depend on the client."""
    lines = [
        f"{call.method} {call.path} HTTP/1.1",
        f"OpenStack-API-Version: placement {call.version}",
    ]
    if call.path != "/":
        lines.insert(1, "X-Auth-Token: $TOKEN")
    if call.body is not None:
        lines += ["Content-Type: application/json", "", pretty(call.body)]
    return "\n".join(lines)


def answer_text(exchange: Exchange) -> str:
    """Return the answer: status line, the headers worth showing, body."""
    answer = exchange.answer
    lines = [f"HTTP/1.1 {answer.status}"]
    for name in SHOWN_HEADERS:
        if name in answer.headers:
            value = DATE if name == "last-modified" else answer.headers[name]
            lines.append(f"{name}: {value}")
    if answer.body:
        lines += ["", pretty(exchange.shown())]
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
    actions: tuple[Action, ...] = ALL_ROUTES[operation.path][operation.method]
    since = actions[0].since
    rule = actions[0].rule
    lines = [] if operation.path.startswith("/-/") else [f"Since microversion **1.{since}**."]
    lines.append(f"Policy rule ``placement:{rule}``." if rule else "No token is needed.")
    return [" ".join(lines), ""]


def exchange_text(exchange: Exchange) -> list[str]:
    """Return one request with its answer; nothing for a silent step of the story."""
    call = exchange.call
    if call.silent:
        return []
    lines = [call.says, ""] if call.says else []
    lines += literal(request_text(call), "http")
    lines += literal(answer_text(exchange), "http")
    if call.shorten:
        lines += [f"Only the first {KEPT} entries of ``{call.shorten}`` are printed here.", ""]
    return lines


def tables(told: Told, operation: Operation) -> Iterator[str]:
    """Yield three tables: parameters, fields of the body, fields of the answer."""
    path, method = operation.path, operation.method
    first = api_fields.first_minor(path, method)
    parameters = api_fields.parameters(path, method)
    body = api_fields.body_fields(path, method)
    for title, found in (("Parameters of the query", parameters), ("Fields of the body", body)):
        yield from table(title, found, first)
    kind = component(operation)
    if kind in told.answers:
        yield from table("Fields of the answer", told.answers[kind], first, told_as_required=False)


def table(
    title: str, found: dict[Field, list[Window]], first: int, told_as_required: bool = True
) -> Iterator[str]:
    """Yield a table of fields, with the versions between which they exist."""
    if not found:
        return
    yield from (f".. list-table:: {title}", "   :header-rows: 1", "   :class: fields", "")
    yield from ("   * - name", "     - type", "     - since", "     - until")
    for each, window in api_fields.sorted_fields(found):
        needed = ", required" if told_as_required and each.required and each.kind else ""
        since, until = api_fields.since_until(window, first)
        name = each.path if each.path else "(the whole)"
        yield f"   * - ``{name}``"
        note = NOTES.get(each.path, "") if title.startswith("Parameters") else ""
        for cell in (each.kind + needed + note, since, until):
            yield f"     - {cell}".rstrip()
    yield ""


def operation_text(told: Told, operation: Operation) -> list[str]:
    """Return the section of one operation."""
    lines = heading(f"{operation.method} {operation.path or '(empty path)'}", "-")
    lines += facts(operation)
    lines += [*textwrap.wrap(operation.text, WIDTH), ""]
    lines += tables(told, operation)
    for exchange in told.exchanges[operation.path, operation.method]:
        lines += exchange_text(exchange)
    return lines


def page_text(told: Told, page: Page) -> str:
    """Return one page."""
    origin = "docs/_tools/api_examples.py: change docs/_tools/api_story.py"
    lines = [f".. Written by {origin}, not this file.", ""]
    lines += heading(page.title, "=")
    lines += [*textwrap.wrap(page.text, WIDTH), ""]
    for operation in page.operations:
        lines += operation_text(told, operation)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


def pages() -> dict[str, str]:
    """Return every page by file name, made by one run of the story."""
    told = tell()
    return {f"{page.name}.rst": page_text(told, page) for page in PAGES}


def main() -> None:
    """Write the pages."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()
