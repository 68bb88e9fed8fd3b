"""The documentation builds, and says what is so."""

import re
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from sqlalchemy import text

from docs import api_examples, api_fields, api_story, live_pages
from placement.cmd import manage
from placement.db import invariants, schema
from placement.db.database import Database, Transaction
from placement.routes import CLAIMS, ROUTES
from tests.support.databases import KINDS, opened, scratch_database
from tests.support.processes import ran, require_program

DOCS = Path(__file__).parents[2] / "docs"
WINDOW_WIDTHS = (360, 1024, 1200, 1400, 1600)
OLD_HEAD = "a082b8bb98d0"
HOST = "11111111-1111-4111-8111-111111111111"


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
    wide = []
    page = browser.new_page()
    for file in sorted(built.rglob("*.html")):
        page.goto(file.as_uri())
        for width in WINDOW_WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            if page.evaluate("document.documentElement.scrollWidth > window.innerWidth"):
                wide.append(f"{file.relative_to(built)} at {width} px")
    page.close()
    assert wide == []


@pytest.fixture(scope="module")
def answered() -> dict[str, str]:
    """The pages of the API reference, made now."""
    return api_examples.pages()


@pytest.mark.parametrize("name", [f"{page.name}.rst" for page in api_story.PAGES])
def test_the_api_reference_is_what_the_service_answers(name: str, answered: dict[str, str]) -> None:
    """``python -m docs.api_examples`` writes the pages anew."""
    assert (DOCS / "api" / name).read_text() == answered[name]


def test_the_api_reference_has_every_operation() -> None:
    described = {(each.path, each.method) for page in api_story.PAGES for each in page.operations}
    routed = {(path, method) for path in ROUTES for method in ROUTES[path]}
    routed |= {(path.replace(":.+}", "}"), method) for path in CLAIMS for method in CLAIMS[path]}
    assert described == routed


def test_fields_say_from_which_version_to_which() -> None:
    """Of requests as the schemas have it, of answers as the service answers."""
    sent = api_fields.body_fields("/allocations/{consumer_uuid}", "PUT")
    windows = {(field.path, field.kind.split(",")[0]): found for field, found in sent.items()}
    assert windows["project_id", "string"] == [(8, 39)]
    assert windows["allocations", "array"] == [(0, 11)]
    assert windows["consumer_generation", "integer or null"] == [(28, 39)]

    answers = api_examples.tell().answers
    shown = {field.path: found for field, found in answers["ResourceProvider"].items()}
    assert shown["name"] == [(0, 39)]
    assert shown["root_provider_uuid"] == [(14, 39)]
    assert shown["links[rel=allocations]"] == [(11, 39)]


@pytest.mark.ci
@pytest.mark.parametrize("story", live_pages.STORIES, ids=lambda story: story[0])
def test_commands_print_what_the_pages_show(story: tuple[str, ...]) -> None:
    """``python -m docs.live_pages`` writes the output anew. No tutorial leaves a file behind."""
    require_program("curl")
    with live_pages.stage(story) as shell:
        before = shell.run("ls")
        for name in story:
            shown = (DOCS / name).read_text()
            assert live_pages.rewritten(shown, shell) == shown
        if story[0].startswith("tutorial/"):
            assert shell.run("ls") == before


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


def _inventory(total: int, provider_id: int) -> str:
    return (
        "INSERT INTO inventories (resource_provider_id, resource_class_id, total, reserved, min_unit,"
        f" max_unit, step_size, allocation_ratio) VALUES ({provider_id}, 1, {total}, 0, 1, 99, 1, 1.0)"
    )


def _claim(number: int, amount: int, provider_id: int) -> tuple[str, str]:
    uuid = f"66666666-6666-4666-8666-{number:012}"
    return (
        f"INSERT INTO consumers (uuid, project_id, user_id, generation) VALUES ('{uuid}', 1, 1, 1)",
        "INSERT INTO allocations (resource_provider_id, consumer_id, resource_class_id, used) "
        f"VALUES ({provider_id}, '{uuid}', 1, {amount})",
    )


OLD_DATA = (
    "INSERT INTO resource_classes (id, name) VALUES (1, 'MEMORY_MB')",
    "INSERT INTO projects (id, external_id) VALUES (1, 'demo')",
    "INSERT INTO users (id, external_id) VALUES (1, 'alice')",
    "INSERT INTO resource_providers (id, uuid, name, generation, root_provider_id) "
    f"VALUES (1000, '{HOST}', 'host1', 3, 1000)",
    _inventory(10, 1000),
    *_claim(1, 4, 1000),
)
"""Written by the old service before the switch. It names no column that we add."""

MORE_OLD_DATA = (
    "INSERT INTO resource_providers (id, uuid, name, generation, root_provider_id) "
    "VALUES (1001, '22222222-2222-4222-8222-222222222222', 'host2', 0, 1001)",
    _inventory(20, 1001),
    *_claim(2, 5, 1000),
    *_claim(3, 7, 1001),
    "DELETE FROM allocations WHERE used = 4",
    "DELETE FROM consumers WHERE uuid = '66666666-6666-4666-8666-000000000001'",
)
"""Written by the old service after the way back."""


def _write(database: Database, statements: tuple[str, ...]) -> None:
    def work(tx: Transaction) -> None:
        for statement in statements:
            tx.connection.execute(text(statement))

    database.write(work)


def _used(database: Database) -> dict[int, int]:
    query = text("SELECT resource_provider_id, used FROM inventories")
    return {
        row[0]: row[1]
        for row in database.read(lambda connection: connection.connection.execute(query).all())
    }


@pytest.mark.parametrize("stamped", [True, False], ids=["stamped", "not stamped"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_way_to_this_service_and_back_and_here_again(
    kind: str, stamped: bool, tmp_path: Path
) -> None:
    """The counters are right in the end, whatever the old service wrote in between."""
    with scratch_database(kind, OLD_HEAD) as url, opened(url) as database:
        settings = tmp_path / "placement.conf"
        settings.write_text(f"[placement_database]\nconnection = {url}\n")
        run = ["--config-file", str(settings), "db"]
        _write(database, OLD_DATA)

        assert manage.run([*run, "sync", "--finish"]) == 0
        assert manage.run([*run, "check"]) == 0
        assert _used(database) == {1000: 4}

        if stamped:
            assert manage.run([*run, "stamp", OLD_HEAD]) == 0
            assert schema.current(database) == OLD_HEAD
        _write(database, MORE_OLD_DATA)

        assert manage.run([*run, "sync", *(["--finish"] if stamped else [])]) == 0
        if not stamped:
            assert manage.run([*run, "check"]) == 1
            manage.run([*run, "check", "--repair"])
        assert _used(database) == {1000: 5, 1001: 7}
        assert invariants.violations(database) == []
