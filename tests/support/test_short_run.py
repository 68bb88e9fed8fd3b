"""A short run tries one server beside SQLite, some pages, one web server; a full run notes its seconds."""

import json
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from docs._tools.live_pages import STORIES
from tests.support import affected, databases, effort, seconds, short_run
from tests.support.short_run import ROUTES, SERVERS, Chosen

pytestmark = pytest.mark.xdist_group("tree")
ROOT = Path(__file__).parents[2]
STORY = STORIES[1]


def item(case: str = "", *marks: str, **params: Any) -> Any:
    """A test with this text in brackets behind its name."""
    given = {"callspec": SimpleNamespace(id=case, params=params)} if case else {}
    return SimpleNamespace(
        iter_markers=lambda: [SimpleNamespace(name=each) for each in marks], **given
    )


def chosen(route: str = "pymysql", server: str = "uwsgi", stories: Iterable[str] = ()) -> Chosen:
    return Chosen("", [], route, server, list(stories))


def tried(cases: str, given: Chosen, *marks: str) -> str:
    """Return which of these tests are tried."""
    return " ".join(each for each in cases.split() if given.left_out(item(each, *marks)) is None)


def test_the_routes_are_those_to_a_server() -> None:
    assert ROUTES.keys() == databases.ROUTES.keys() - {"sqlite"}


CASES = (
    "sqlite sqlite-a postgresql a-postgresql-b postgresql-alone mysql mysql-shared pymysql pymysql-alone"
    " mysqlclient mysql+pymysql psycopg2 mysql-read-committed all"
)


@pytest.mark.parametrize(
    ("route", "others"),
    [
        ("postgresql", "postgresql a-postgresql-b psycopg2"),
        ("postgresql-alone", "postgresql a-postgresql-b postgresql-alone psycopg2"),
        ("pymysql", "mysql mysql-shared pymysql mysql+pymysql mysql-read-committed"),
        ("pymysql-alone", "mysql mysql-shared pymysql-alone mysql+pymysql mysql-read-committed"),
        ("mysqlclient", "mysql mysql-shared mysqlclient mysql+pymysql mysql-read-committed"),
    ],
    # By the name of a server these cases would themselves be left out of short runs.
    ids=range(5),
)
def test_sqlite_and_one_route_are_tried(route: str, others: str) -> None:
    expected = {"sqlite", "sqlite-a", "all", *others.split()}
    assert set(tried(CASES, chosen(route)).split()) == expected


def test_a_mark_names_a_server_too() -> None:
    assert chosen("postgresql").left_out(item("", "mysql"))
    assert chosen("postgresql").left_out(item("", "postgresql")) is None
    assert chosen("pymysql").left_out(item("mysql", "galera"))
    assert chosen("pymysql-alone").left_out(item("mysql", "galera")) is None


def test_an_address_or_a_path_needs_no_server() -> None:
    """Nor does a text of several words that holds one."""
    cases = "postgresql://h:port/x mysql://u:p@h/x proofs/galera/test_races etc/uwsgi/x.ini"
    assert tried(cases, chosen("mysqlclient", "nginx"), "deploy") == cases
    assert chosen(server="nginx").left_out(item("gunicorn sync-chunks", "deploy"))


@pytest.mark.parametrize(
    ("server", "others"),
    [
        ("uwsgi", "uwsgi nginx+uwsgi uwsgi-chunks"),
        ("gunicorn", "gunicorn"),
        ("nginx", "nginx+uwsgi"),
        ("apache", "mod_wsgi-length"),
        ("placement-api", "placement-api wsgiref"),
        ("", "uwsgi nginx+uwsgi uwsgi-chunks gunicorn mod_wsgi-length placement-api wsgiref"),
    ],
)
def test_one_web_server_is_tried_or_all(server: str, others: str) -> None:
    cases = "none uwsgi nginx+uwsgi uwsgi-chunks gunicorn mod_wsgi-length placement-api wsgiref"
    given = chosen(server=server)
    assert set(tried(cases, given, "deploy").split()) == {"none", *others.split()}
    assert tried(cases, given) == cases


def test_pages_are_tried_that_have_changed_or_were_drawn() -> None:
    given = chosen(stories=[STORY[0]])
    assert given.left_out(item("a", story=STORY)) is None
    assert given.left_out(item("a", story=STORIES[0]))


@pytest.fixture(scope="module")
def tree() -> affected.Tree:
    return affected.Tree()


@pytest.fixture
def drawn_by(tree: affected.Tree, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what is drawn after a change by a seed."""

    def draw(seed: int, *changed: str) -> Chosen:
        monkeypatch.setenv(effort.DRAWN_BY, str(seed))
        return short_run.draw(list(changed), tree)

    return draw


def test_the_seed_draws_the_same_again_and_everything_in_time(drawn_by: Any) -> None:
    page = "placement/client/plans.py"
    assert drawn_by(1, page) == drawn_by(1, page)

    drawn = [drawn_by(seed, page) for seed in range(60)]

    assert {each.route for each in drawn} == ROUTES.keys()
    assert {each.server for each in drawn} == SERVERS.keys()
    assert {page for each in drawn for page in each.stories} == {story[0] for story in STORIES}
    assert {len(each.stories) for each in drawn} == {short_run.PAGES}


def test_what_starts_servers_has_all_of_them_tried_and_a_page_its_story(
    drawn_by: Any, tree: affected.Tree
) -> None:
    for path in (
        "etc/uwsgi/placement.ini",
        "placement/cmd/http_server.py",
        "tests/support/deployment.py",
        "tests/support/library_server.py",
        "bin/placement-api",
        "setup.cfg",
        "requirements.lock",
        ".ci/install",
    ):
        assert drawn_by(1, path).server == ""
    assert drawn_by(1, "placement/extensions/plans/service.py").server
    assert {STORY[0]} < {*drawn_by(1, f"docs/{STORY[2]}").stories}
    assert "../README.rst" in drawn_by(1, "README.rst").stories
    assert len(drawn_by(1, "docs/_tools/live_pages.py").stories) == len(STORIES)
    unknown = short_run.draw("nobody knows", tree)
    assert (unknown.everything, unknown.server) == ("nobody knows", "")
    assert len(unknown.stories) == len(STORIES)


@pytest.mark.parametrize(
    ("words", "chooses"),
    [
        ("", False),
        ("tests", False),
        ("tests/web", True),
        ("tests/support/test_short_run.py", True),
        ("tests/support/test_short_run.py::test_a", True),
    ],
)
def test_a_command_line_that_chooses_is_not_narrowed(words: str, chooses: bool) -> None:
    option = SimpleNamespace(keyword="", markexpr="", drawn=None)
    config: Any = SimpleNamespace(rootpath=ROOT, args=[str(ROOT / words)], option=option)
    assert effort.chooses(config) is chooses
    option.keyword = "mysql"
    assert effort.chooses(config)


def test_a_run_that_leaves_a_folder_out_is_no_full_run() -> None:
    """Or it would be written down as one."""
    for name in ("ignore", "ignore_glob", "deselect", "lf", "stepwise"):
        option = SimpleNamespace(**{name: ["tests/docs"]})
        config: Any = SimpleNamespace(rootpath=ROOT, args=[str(ROOT / "tests")], option=option)
        assert effort.chooses(config)


# -- seconds -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodeid", "group"),
    ids=range(4),
    argvalues=[
        ("tests/a/test_a.py::test_a", "tests/a/test_a.py"),
        ("tests/a/test_a.py::test_a[x@y]", "tests/a/test_a.py"),
        ("tests/a/test_a.py::test_a[x@y]@arena mysql", "arena mysql"),
        ("tests/a/test_a.py::test_a@keystone", "keystone"),
    ],
)
def test_a_group_is_what_xdist_keeps_together(nodeid: str, group: str) -> None:
    assert seconds.unit(nodeid) == group


def recorded(file: Path, *reports: tuple[str, str, float], failed: bool = False) -> None:
    recorder = seconds.Recorder("a commit", file)
    for nodeid, when, duration in reports:
        report: Any = SimpleNamespace(nodeid=nodeid, when=when, duration=duration, passed=True)
        recorder.pytest_runtest_logreport(report)
    recorder.pytest_sessionfinish(int(failed))


def test_a_full_run_writes_what_orders_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The longest group first, and before it what has none; what is of a group or a file stays together."""
    file = tmp_path / "seconds.json"
    recorded(
        file,
        ("b::1", "setup", 3.0),
        ("b::1", "call", 1.0),
        ("a::1", "call", 2.0),
        ("a::2@g", "call", 9.0),
    )

    told = json.loads(file.read_text())
    assert told["seconds_by_group"] == {"g": 9.0, "b": 4.0, "a": 2.0}
    assert told["passed"] == 3
    assert told["commit"] == "a commit"

    monkeypatch.setattr(seconds, "recorded", lambda: told)
    items: list[Any] = [
        SimpleNamespace(nodeid=each) for each in ("a::1", "b::1", "a::2@g", "b::2", "new::1")
    ]
    seconds.longest_first(items)
    assert [each.nodeid for each in items] == ["new::1", "a::2@g", "b::1", "b::2", "a::1"]

    assert [each.nodeid for each in seconds.of_what_takes_long(items)] == ["a::2@g"]

    before = [*items]
    monkeypatch.setattr(seconds, "recorded", dict)
    seconds.longest_first(items)
    assert items == before
    assert seconds.of_what_takes_long(items) == []


def test_a_run_that_failed_writes_nothing(tmp_path: Path) -> None:
    recorded(tmp_path / "seconds.json", ("a::1", "call", 2.0), failed=True)
    assert not (tmp_path / "seconds.json").exists()
