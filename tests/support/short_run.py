"""What CI tries of a change: what the change can reach, on SQLite and one server that is drawn.

The full run (``PLACEMENT_TEST_FULL=1``) tries everything, and so does a command line that chooses tests.
"""

import json
import os
import re
from collections.abc import Collection
from typing import NamedTuple

import pytest

from docs._tools.live_pages import STORIES
from tests.support import affected, effort

VARIABLE = "PLACEMENT_TEST_SHORT_RUN"
"""The variable by which the processes of a run know what has been drawn."""

ROUTES = {
    "postgresql": {"postgresql", "psycopg2"},
    "postgresql-alone": {"postgresql", "psycopg2", "postgresql-alone"},
    "pymysql": {"mysql", "pymysql"},
    "mysqlclient": {"mysql", "mysqlclient"},
    "pymysql-alone": {"mysql", "pymysql-alone", "galera"},
}
"""The routes to a server of ``tests.support.databases``, one of which is drawn, and how its tests are named.

A node of Galera takes each statement as a message of its own too.
"""

SERVERS = {
    "placement-api": {"placement-api", "wsgiref", "cheroot", "werkzeug"},
    "uwsgi": {"uwsgi"},
    "gunicorn": {"gunicorn"},
    "apache": {"apache", "mod_wsgi"},
    "nginx": {"nginx"},
}
"""The web servers, one of which is drawn, and how its tests are named."""

STARTS_SERVERS = re.compile(
    r"placement/(deploy|wsgi|web|cmd/api|cmd/http_server)|etc/|bin/|setup\.cfg|requirements\.lock|\.ci/install"
    r"|tests/support/(deployment|forks|library_server|processes)|tests/operations/deploy/"
)
"""The files whose change has all web servers tried."""

PAGES = 2
"""So many stories of the documentation are tried beside those whose pages have changed."""

ONLY_IN_FULL_RUN = (
    "for the full run, as {}: PLACEMENT_TEST_FULL=1 runs them, and so does naming their file"
)


class Chosen(NamedTuple):
    """What a short run tries.

    :param everything: why all files of tests are tried, or nothing.
    :param tests: otherwise the files that are.
    :param route: of ``ROUTES``.
    :param server: of ``SERVERS``; if empty, all are tried.
    :param stories: the first page of each story of the documentation.
    """

    everything: str
    tests: list[str]
    route: str
    server: str
    stories: list[str]

    def header(self) -> list[str]:
        """Say what is tried."""
        files = self.everything or f"{len(self.tests)} files of tests that a change reaches"
        return [
            f"short run: {files} (tools/affected says more); PLACEMENT_TEST_FULL=1 tries everything",
            f"databases: SQLite, {self.route}; web servers: {self.server or 'all'}",
            f"pages: {' '.join(self.stories)}",
        ]

    def left_out(self, item: pytest.Item) -> str | None:
        """Return why a test is not run now, from its parameters and marks; None if it is."""
        case = getattr(item, "callspec", None)
        name = case.id if case else ""
        marks = {each.name for each in item.iter_markers()}
        named = marks & {"postgresql", "mysql"} | _named(name, ROUTES.values())
        if "galera" in marks:
            named = {"galera"}
        if named and not named & ROUTES[self.route]:
            return ONLY_IN_FULL_RUN.format("another route to a database was drawn")
        served = _named(name, SERVERS.values()) if "deploy" in marks and self.server else set()
        if served and not served & SERVERS[self.server]:
            return ONLY_IN_FULL_RUN.format("another web server was drawn")
        if case and "story" in case.params and case.params["story"][0] not in self.stories:
            return ONLY_IN_FULL_RUN.format("other pages were drawn")
        return None


def _named(name: str, kinds: Collection[set[str]]) -> set[str]:
    """Return which of these words a name has; the longest, where one begins like another."""
    words = sorted({re.escape(word) for kind in kinds for word in kind}, key=len, reverse=True)
    # Between the parts of a name: an address or a path in it needs no server.
    return set(re.findall(rf"(?<![^-+ ])(?:{'|'.join(words)})(?![^-+ ])", name))


def chosen() -> Chosen | None:
    """Return what this run tries; None if it tries everything."""
    given = os.environ.get(VARIABLE)
    return Chosen(**json.loads(given)) if given else None


def choose() -> None:
    """Draw what this run and its processes try, by its seed; nothing is drawn before the first full run."""
    if affected.recorded():
        os.environ[VARIABLE] = json.dumps(draw(affected.changed_files(), affected.Tree())._asdict())


def draw(changed: list[str] | str, tree: affected.Tree) -> Chosen:
    """Return what is tried after a change.

    :param changed: the files, or why nobody knows them.
    """
    is_known = not isinstance(changed, str)
    found = affected.reached(changed, tree) if is_known else affected.Reached(changed, {})
    starts = not is_known or any(map(STARTS_SERVERS.match, changed))
    return Chosen(
        everything=found.everything,
        tests=sorted(found.tests),
        route=effort.drawn_by_run("route").choice(sorted(ROUTES)),
        server="" if starts else effort.drawn_by_run("web server").choice(sorted(SERVERS)),
        stories=_stories(changed if is_known else ["docs/_tools/live_pages.py"]),
    )


def _stories(changed: Collection[str]) -> list[str]:
    """Return the stories one page of which has changed, and some that are drawn."""
    if "docs/_tools/live_pages.py" in changed:
        return [story[0] for story in STORIES]
    told, others = [], []
    for story in STORIES:
        pages = {os.path.normpath(f"docs/{page}") for page in story}
        (others if pages.isdisjoint(changed) else told).append(story[0])
    drawn = effort.drawn_by_run("pages").sample(others, min(PAGES, len(others)))
    return sorted([*told, *drawn])
