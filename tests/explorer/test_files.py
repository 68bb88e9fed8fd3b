"""The files of the page: what they are served as, and when; and what checks them before anybody runs them."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.explorer.stage import key, open_stage
from tests.explorer.test_access import violations
from tests.support.browser import visiting
from tests.support.processes import lacking, ran, require_program
from tests.support.service import running

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "placement" / "extensions" / "explorer" / "page"
TOOLS = HERE / "node_modules" / ".bin"
LONGEST = 400
OPEN = {"insight__enabled": True, "insight__public": ["explorer"]}


def test_every_file_has_its_type_and_tag_and_needs_no_token() -> None:
    types = {
        ".css": "text/css; charset=utf-8",
        ".html": "text/html; charset=utf-8",
        ".js": "text/javascript; charset=utf-8",
        ".svg": "image/svg+xml",
    }
    with running("sqlite", **OPEN) as service:
        for path in PAGE.rglob("*.*"):
            address = f"/-/explorer/{path.relative_to(PAGE).as_posix()}"
            answer = service.request("GET", address, x_auth_token=None)
            assert answer.status_int == 200, address
            assert answer.headers["content-type"] == types[path.suffix]
            assert answer.body == path.read_bytes()
            known = service.request(
                "GET", address, x_auth_token=None, if_none_match=answer.headers["etag"]
            )
            assert (known.status_int, known.body) == (304, b"")
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
        first = service.request("GET", "/-/explorer/", x_auth_token=None)
        assert first.body == (PAGE / "index.html").read_bytes()


def test_address_without_its_slash_leads_to_the_page_under_the_prefix() -> None:
    with running("sqlite", **OPEN) as service:
        answer = service.request(
            "GET", "/-/explorer", x_auth_token=None, environ={"SCRIPT_NAME": "/placement"}
        )
    assert answer.status_int == 308
    assert answer.content_type == "text/html"
    assert answer.headers["location"] == "http://localhost/placement/-/explorer/"


@pytest.mark.parametrize(
    "path",
    [
        "nothing.js", "../routes.py", "..%2froutes.py", "%2e%2e/routes.py", "/etc/passwd", "views",
        "views/", "./main.js", "main.js/", "MAIN.JS", "main.js%00.html", "views//cloud.js",
    ],
)  # fmt: skip
def test_nothing_but_the_files_is_served(path: str) -> None:
    with running("sqlite", **OPEN) as service:
        answer = service.request("GET", f"/-/explorer/{path}", x_auth_token=None)
        assert answer.status_int == 404


def test_page_is_closed_unless_it_is_published_and_absent_unless_enabled() -> None:
    with running("sqlite", insight__enabled=True) as service:
        assert service.request("GET", "/-/explorer/", x_auth_token=None).status_int == 401
        assert service.request("GET", "/-/explorer/").status_int == 200
    with running("sqlite", insight__public=["explorer"]) as service:
        assert service.request("GET", "/-/explorer/", x_auth_token=None).status_int == 401
        assert service.request("GET", "/-/explorer/").status_int == 404


def test_publishing_the_page_publishes_nothing_else() -> None:
    with running("sqlite", **OPEN) as service:
        for path in ("/-/trees", "/-/explorer-of-others", "/resource_providers", "/traits"):
            assert service.request("GET", path, x_auth_token=None).status_int in (401, 404), path
        assert service.request("GET", "/-/trees", x_auth_token=None).status_int == 401


def test_ways_out_are_shown_to_who_may_see_trees() -> None:
    """Not to everybody: the addresses of an operator's dashboards are data."""
    link = "https://cloud.example.org/{project}/"
    with running("sqlite", **OPEN, insight__link_project=link) as service:
        assert service.request("GET", "/-/links", x_auth_token=None).status_int == 401
        assert service.request("GET", "/-/links", x_auth_token="nobody").status_int == 403
        assert service.request("GET", "/-/links").json == {"project": link}
    with running("sqlite", **OPEN) as service:
        assert service.request("GET", "/-/links").json == {}
        assert service.request("GET", "/-/links?of=me").status_int == 400


def test_types_and_style_hold() -> None:
    """Strict types from JSDoc, eslint, no long file, no markup made of text."""
    if not TOOLS.exists():
        lacking("the packages of tests/explorer/package.json")
    npm = require_program("npm")
    ran([npm, "run", "--silent", "check"], check=True, cwd=HERE)
    for path in PAGE.rglob("*.*"):
        assert len(path.read_text().splitlines()) <= LONGEST, path


def test_empty_cloud_says_what_to_do(browser: Browser) -> None:
    with open_stage() as stage, visiting(browser, stage.url) as visitor:
        visitor.come()
        expect(visitor.page.get_by_role("heading", name="The cloud is empty")).to_be_visible()
        expect(visitor.page.locator("code")).to_contain_text(f"--url {stage.url}")
        assert violations(visitor) == []
        visitor.go("#/owners")
        expect(visitor.page.get_by_role("heading", name="Nothing is in use")).to_be_visible()
        visitor.go("#/outlook")
        expect(visitor.page.locator("[data-summary]")).to_have_text(
            "There is no host that could fail."
        )
        visitor.go("#/tree")
        expect(visitor.page.get_by_role("heading", name="The cloud is empty")).to_be_visible()
        expect(visitor.page.get_by_text("Or choose")).to_be_hidden()
        stage.provider("bare")
        visitor.go(f"#/tree/{key('bare')}")
        expect(visitor.page.get_by_label("The tree").get_by_text("no inventory")).to_be_visible()
        visitor.go("#/cloud")
        expect(visitor.page.get_by_text("None of these providers has an inventory")).to_be_visible()
        assert violations(visitor) == []


def test_page_works_under_the_prefix_of_a_front_end(browser: Browser) -> None:
    with open_stage(prefix="/placement") as stage:
        stage.provider("host")
        with visiting(browser, stage.url) as visitor:
            visitor.come()
            expect(visitor.page.locator(".summary")).to_have_text("1 tree with 1 provider")
