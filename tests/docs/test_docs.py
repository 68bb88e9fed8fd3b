"""The documentation builds, and says what is so."""

import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser
from sqlalchemy import text

from docs._tools import api_examples, api_fields, api_story, empty_clone, live_pages
from docs._tools.url_page import CLAIMS, ROUTES
from placement.cmd import manage
from placement.db import invariants, schema, standard_names
from placement.db.database import Database
from tests.support.affected import SECONDS
from tests.support.commands import forked_for_shells
from tests.support.databases import KINDS, opened, scratch_database
from tests.support.forks import placement_api
from tests.support.old_service import OldService, new_uuid
from tests.support.processes import free_port, listens, ran, require_program

DOCS = Path(__file__).parents[2] / "docs"
WINDOW_WIDTHS = (360, 1024, 1200, 1400, 1600)
WIDE = """async ([pages, widths]) => {
    const frame = document.createElement("iframe"), wide = [];
    document.body.replaceChildren(frame);
    for (const page of pages) {
        await new Promise((arrive) => { frame.onload = arrive; frame.src = page; });
        for (const width of widths) {
            frame.width = width;
            const { contentDocument, contentWindow } = frame;
            const shown = contentDocument.documentElement.scrollWidth;
            if (shown > width || contentWindow.innerWidth !== width || !contentDocument.title)
                wide.push(`${page} at ${width} px: ${shown}`);
        }
    }
    return wide;
}"""
"""Returns the pages that are too wide. A frame that changes its width costs less than a window that does."""
OLD_HEAD = "a082b8bb98d0"
MANY_COMMANDS = {live_pages.OUTLOOK, live_pages.SWITCH, live_pages.HOLD, live_pages.ROOM}
SERVED = [story for story in live_pages.STORIES if story != live_pages.README]
FORKED = ("openstack", "placement-compare", "placement-manage")
"""In those stories. The others start them as their readers do."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the pages, built now without a warning."""
    made = tmp_path_factory.mktemp("documentation")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"]
    done = ran([*command, "-d", made / "trees", DOCS, made / "html"])
    assert done.stderr == ""
    assert done.returncode == 0
    return made / "html"


@pytest.mark.ci
@pytest.mark.xdist_group("built documentation")
def test_the_documentation_builds_without_a_warning(built: Path) -> None:
    """Every page is in a table of contents, every link leads somewhere, every directive works."""
    errors = (built / "reference/errors.html").read_text()
    assert "placement.resource_provider.cannot_delete_parent" in errors
    assert "max_request_body_size" in (built / "reference/options.html").read_text()
    pages = list(built.rglob("*.html"))
    assert built / "openapi/index.html" in pages
    fetched = re.compile(
        r"<(?:script|img|iframe)[^>]*\ssrc=.https?:|<link[^>]*rel=.stylesheet[^>]*https?:"
    )
    assert [page.name for page in pages if fetched.search(page.read_text())] == []


@pytest.mark.ci
@pytest.mark.xdist_group("built documentation")
def test_no_page_of_the_documentation_scrolls_sideways(built: Path, browser: Browser) -> None:
    """Not on a phone, and not at the widths at which the theme shows one column or two beside the text."""
    pages = [f"/{file.relative_to(built)}" for file in sorted(built.rglob("*.html"))]
    with served(built) as url, browser.new_page() as page:
        page.goto(url)
        assert page.evaluate(WIDE, [pages, WINDOW_WIDTHS]) == []


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve the files of a folder over HTTP."""

    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given, directory=str(folder))

        def log_message(self, *_: Any) -> None:
            """Keep quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server, ThreadPoolExecutor(1) as thread:
        thread.submit(server.serve_forever, 0.05)
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


@pytest.fixture(scope="module")
def told() -> api_examples.Told:
    """What the service answers to the story of the API reference, told once."""
    return api_examples.tell()


@pytest.mark.xdist_group("api reference")
def test_the_api_reference_is_what_the_service_answers(told: api_examples.Told) -> None:
    """``python -m docs._tools.api_examples`` writes the pages anew."""
    for page in api_story.PAGES:
        shown = (DOCS / "api" / f"{page.name}.rst").read_text()
        assert shown == api_examples.page_text(told, page)


def test_the_api_reference_has_every_operation() -> None:
    described = {(each.path, each.method) for page in api_story.PAGES for each in page.operations}
    routed = {(path, method) for path in ROUTES for method in ROUTES[path]}
    routed |= {(path.replace(":.+}", "}"), method) for path in CLAIMS for method in CLAIMS[path]}
    assert described == routed


@pytest.mark.xdist_group("api reference")
def test_fields_say_from_which_version_to_which(told: api_examples.Told) -> None:
    """Of requests as the schemas have it, of answers as the service answers."""
    sent = api_fields.body_fields("/allocations/{consumer_uuid}", "PUT")
    windows = {(field.path, field.kind.split(",")[0]): found for field, found in sent.items()}
    assert windows["project_id", "string"] == [(8, 39)]
    assert windows["allocations", "array"] == [(0, 11)]
    assert windows["consumer_generation", "integer or null"] == [(28, 39)]

    shown = {field.path: found for field, found in told.answers["ResourceProvider"].items()}
    assert shown["name"] == [(0, 39)]
    assert shown["root_provider_uuid"] == [(14, 39)]
    assert shown["links[rel=allocations]"] == [(11, 39)]


@contextmanager
def _forked_server(folder: Path) -> Iterator[str]:
    words, environment = ("--port", free_port()), live_pages.environment(folder)
    with placement_api("server", *words, folder=folder, environment=environment) as process:
        url = f"http://127.0.0.1:{words[1]}"
        process.wait_until("it listens", lambda: listens(words[1]))
        yield url


@pytest.mark.ci
@pytest.mark.parametrize("story", SERVED, ids=lambda story: story[0])
def test_commands_print_what_the_pages_show(
    story: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``python -m docs._tools.live_pages`` writes the output anew. No tutorial leaves a file behind."""
    require_program("curl")
    if story != live_pages.STORIES[0]:
        monkeypatch.setattr(live_pages, "_server", _forked_server)
    with live_pages.stage(story) as shell, forked_for_shells(tmp_path, *FORKED) as place:
        if story in MANY_COMMANDS:
            shell.run(f"PATH={place}:$PATH")
        before = shell.run("ls")
        for name in story:
            shown = (DOCS / name).read_text()
            assert live_pages.rewritten(shown, shell) == shown
        if story[0].startswith("tutorial/"):
            assert shell.run("ls") == before


@pytest.mark.ci
@pytest.mark.parametrize("story", [live_pages.README], ids=lambda story: story[0])
def test_readme_is_pasted_into_an_empty_clone_and_its_pictures_show_what_it_made(
    story: tuple[str, ...], browser: Browser, tmp_path: Path
) -> None:
    """``python -m docs._tools.empty_clone`` writes README and draws its pictures."""
    require_program("curl")
    readme = DOCS / story[0]
    with empty_clone.empty_clone() as shell:
        assert live_pages.rewritten(readme.read_text(), shell) == readme.read_text()
        pages = empty_clone.draw(browser, shell.url, tmp_path)

    said = empty_clone.alternative_texts()
    assert said.keys() == pages.keys()
    for name, page in pages.items():
        figures = re.findall(r"(?<![\w-])\d[\d,]*", said[name])
        assert figures, name
        assert [figure for figure in figures if figure not in page] == []
        assert (empty_clone.IMAGES / f"{name}.png").exists()


def test_progress_of_a_slow_machine_is_not_part_of_a_page() -> None:
    printed = "Upgraded to a\nresource providers noted: 2 of 2 rows\nUpgraded to b"
    assert live_pages.settled(printed) == "Upgraded to a\nUpgraded to b"


@pytest.mark.parametrize(
    "page", sorted((DOCS / "maintainers").glob("*.rst")), ids=lambda page: page.name
)
def test_files_that_maintainers_are_sent_to_are_there(page: Path) -> None:
    named = re.findall(
        r"``((?:placement|docs|tests|etc|tools|benchmarks)/[\w./-]+)``", page.read_text()
    )
    # What is built, and 1.40, which the recipes take as the version to be added.
    missing = {name for name in named if not (DOCS.parent / name).exists()}
    # A full run writes it, the first one too.
    missing.discard(SECONDS)
    assert not {name for name in missing if "_build" not in name and "1.40" not in name}
    # A module that is named without its folder.
    modules = set(re.findall(r"``(?!docs/)([\w/]+\.py)``", page.read_text()))
    folders = [DOCS.parent / place for place in ("placement", "docs", "tests")]
    assert not {
        name
        for name in modules.difference(named)
        if not any(any(folder.glob(f"**/{name}")) for folder in folders)
    }


# -- docs/howto/switch-over.rst ----------------------------------------------------------------


def _used(database: Database) -> dict[str, int]:
    query = text(
        "SELECT p.uuid, i.used FROM inventories i"
        " JOIN resource_providers p ON p.id = i.resource_provider_id"
    )
    rows = database.read(lambda reader: reader.connection.execute(query).all())
    return dict(row._tuple() for row in rows)


@pytest.mark.parametrize("stamped", [True, False], ids=["stamped", "not stamped"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_way_to_this_service_and_back_and_here_again(
    kind: str, stamped: bool, tmp_path: Path
) -> None:
    """The counters are right in the end, whatever the old service wrote in between."""
    first, second, third = (new_uuid() for _ in range(3))
    one, other = (new_uuid() for _ in range(2))
    with scratch_database(kind, OLD_HEAD) as url, opened(url) as database:
        settings = tmp_path / "placement.conf"
        settings.write_text(f"[placement_database]\nconnection = {url}\n")
        run = ["--config-file", str(settings), "db"]
        standard_names.synchronise(database)
        old = OldService(url)
        for host in (first, second):
            old.create_provider(host, host)
            old.set_inventory(host, {"MEMORY_MB": {"total": 10}})
        old.claim(one, {first: {"MEMORY_MB": 4}, second: {"MEMORY_MB": 2}})

        assert manage.run([*run, "sync", "--finish"]) == 0
        assert manage.run([*run, "check"]) == 0
        assert _used(database) == {first: 4, second: 2}

        if stamped:
            assert manage.run([*run, "stamp", OLD_HEAD]) == 0
            assert schema.current(database) == OLD_HEAD
        old.create_provider(third, third)
        old.set_inventory(third, {"MEMORY_MB": {"total": 20}})
        old.claim(other, {first: {"MEMORY_MB": 5}, third: {"MEMORY_MB": 7}})
        # Which moves no generation, the second host's neither.
        old.release(one)
        old.dispose()

        assert manage.run([*run, "sync", *(["--finish"] if stamped else [])]) == 0
        if not stamped:
            assert manage.run([*run, "check"]) == 1
            manage.run([*run, "check", "--repair"])
        assert _used(database) == {first: 5, second: 0, third: 7}
        assert invariants.violations(database) == []
