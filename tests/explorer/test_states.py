"""What the page shows when there is nothing to show, and how it keeps up with the cloud."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Route, expect

from tests.explorer.stage import PULSE_MS, Stage, key, open_stage
from tests.support.browser import Visitor, visiting


def test_who_has_no_token_is_asked_for_one(visitor: Visitor) -> None:
    """And the service is asked for nothing but the files of the page."""
    page = visitor.page
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{visitor.url}/-/explorer/")

    expect(page.get_by_role("heading", name="Sign in with a token")).to_be_visible()
    expect(page.get_by_label("Token")).to_be_focused()
    assert page.get_by_label("Token").get_attribute("type") == "password"
    assert asked
    assert [url for url in asked if "/-/explorer/" not in url] == []


def test_a_wrong_token_is_not_called_expired(alone: Visitor, stage: Stage) -> None:
    """Nor does a right one that was given after it count as wrong."""
    page = alone.page
    page.goto(f"{alone.url}/-/explorer/")
    stage.refuse = 401
    page.get_by_label("Token").fill("wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="The service does not accept this token")).to_be_visible()

    stage.refuse = None
    page.get_by_label("Token").fill("admin")
    page.keyboard.press("Enter")
    alone.settle()
    stage.refuse = 401
    page.reload()
    expect(page.get_by_role("heading", name="Your token has expired")).to_be_visible()


def test_token_and_colours_survive_a_reload(visitor: Visitor) -> None:
    visitor.come()
    page = visitor.page
    root = page.locator("html")
    expect(root).to_have_attribute("data-scheme", "light")
    page.get_by_role("button", name="Dark", exact=True).click()
    page.reload()
    visitor.settle()
    expect(root).to_have_attribute("data-scheme", "dark")
    page.get_by_role("button", name="Forget token").click()
    page.reload()
    expect(page.get_by_label("Token")).to_be_focused()


def test_who_may_not_reads_which_rule_says_no(visitor: Visitor) -> None:
    page = visitor.page
    page.goto(f"{visitor.url}/-/explorer/")
    page.get_by_label("Token").fill("nobody")
    page.keyboard.press("Enter")

    expect(page.get_by_role("heading", name="Your token may not do this")).to_be_visible()
    expect(page.get_by_text("placement:insight:trees")).to_be_visible()
    expect(page.get_by_text("In a trial the token is admin")).to_be_visible()
    page.get_by_role("button", name="Forget token").click()
    expect(page.get_by_label("Token")).to_be_focused()


def test_expired_token_leaves_the_view_and_asks_again(alone: Visitor, stage: Stage) -> None:
    alone.page.clock.install()
    alone.come(f"#/tree/{key('gpus')}")
    page = alone.page

    stage.refuse = 401
    page.clock.fast_forward(PULSE_MS)
    expect(page.get_by_role("heading", name="Your token has expired")).to_be_visible()
    expect(page.locator("h1")).to_contain_text("gpus")

    stage.refuse = None
    page.get_by_label("Token").fill("admin")
    page.keyboard.press("Enter")
    alone.settle()
    expect(page.get_by_role("heading", name="Your token has expired")).to_be_hidden()


def test_service_that_is_away_leaves_what_was_read_and_comes_back(
    alone: Visitor, stage: Stage
) -> None:
    alone.page.clock.install()
    alone.come()
    page = alone.page

    stage.refuse = 503
    page.clock.fast_forward(PULSE_MS)
    expect(page.get_by_role("alert")).to_contain_text("The service does not answer")
    expect(page.locator(".status")).to_have_text("Out of date")
    expect(page.locator(".summary")).to_have_text("6 trees with 10 providers")
    page.goto(f"{alone.url}/-/explorer/#/owners")
    expect(page.get_by_role("heading", name="The service does not answer")).to_be_visible()
    expect(page.get_by_role("alert")).to_be_hidden()

    stage.refuse = None
    page.clock.fast_forward(PULSE_MS)
    alone.settle()
    expect(page.get_by_role("alert")).to_be_hidden()


@pytest.mark.parametrize("how", ["says 503", "is gone"])
def test_service_that_was_never_there(alone: Visitor, stage: Stage, how: str) -> None:
    page = alone.page
    page.clock.install()
    page.goto(f"{alone.url}/-/explorer/")
    expect(page.get_by_label("Token")).to_be_focused()
    if how == "says 503":
        stage.refuse = 503
    else:
        page.context.set_offline(True)
    page.get_by_label("Token").fill("admin")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="The service does not answer")).to_be_visible()

    stage.refuse = None
    page.context.set_offline(False)
    page.clock.fast_forward(PULSE_MS)
    alone.settle()
    expect(page.locator("tree-grid")).to_be_visible()


@pytest.mark.parametrize(
    ("status", "title"),
    [(500, "The service failed: 500"), (200, "This is not an answer of the service")],
)
def test_header_says_what_went_wrong(
    alone: Visitor, stage: Stage, status: int, title: str
) -> None:
    """Also for the sign-in page of a proxy, which has the status 200. Nothing has refused the token."""
    page = alone.page
    page.clock.install()
    page.goto(f"{alone.url}/-/explorer/")
    stage.refuse = status
    page.get_by_label("Token").fill("admin")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name=title)).to_be_visible()
    expect(page.locator(".status")).to_have_text(title)

    stage.refuse = None
    page.clock.fast_forward(PULSE_MS)
    alone.settle()


def test_unknown_tree_and_wrong_address(visitor: Visitor) -> None:
    visitor.come()
    page = visitor.page
    page.goto(f"{visitor.url}/-/explorer/#/tree/{key('never made')}")
    expect(page.get_by_role("heading", name="There is no such thing")).to_be_visible()
    visitor.go("#/nothing/of/the?kind=%ff")
    assert visitor.heading() == "Cloud"


@pytest.fixture
def changing(stage: Stage) -> Iterator[Stage]:
    yield stage
    stage.send("DELETE", f"/allocations/{key('newcomer')}")


def test_cloud_that_changes_under_the_eyes(alone: Visitor, changing: Stage) -> None:
    alone.page.clock.install()
    alone.come("#/cloud?name=quiet")
    page = alone.page
    top = page.get_by_label("Fullest trees").locator("li").first
    expect(top).to_contain_text("0 %")
    page.get_by_role("searchbox").focus()

    # The first refresh finds nothing new: its one request has an empty answer.
    shown = page.locator(".status").inner_text()
    changing.asked.clear()
    page.clock.fast_forward(PULSE_MS)
    expect(page.locator(".status")).not_to_have_text(shown)
    assert set(changing.asked) == {("GET", "/-/trees", 304)}
    alone.settle()
    changing.claim("newcomer", "shop", quiet={"VCPU": 4})
    page.clock.fast_forward(PULSE_MS)

    expect(top).to_contain_text("50 %")
    expect(top).to_contain_text("4 of 8 cores")
    expect(page.get_by_role("searchbox")).to_be_focused()


def test_open_details_and_focus_survive_a_refresh(alone: Visitor, changing: Stage) -> None:
    alone.page.clock.install()
    alone.come(f"#/tree/{key('quiet')}")
    page = alone.page
    page.get_by_text("1 trait").click()
    page.get_by_role("link", name="quiet").focus()

    changing.claim("newcomer", "shop", quiet={"VCPU": 2})
    page.clock.fast_forward(PULSE_MS)

    expect(page.get_by_label("The tree")).to_contain_text("2 / 8 cores")
    expect(page.get_by_text("HW_CPU_X86_AVX2")).to_be_visible()
    expect(page.get_by_role("link", name="quiet")).to_be_focused()


def test_what_somebody_else_changes_is_shown_without_a_pulse(
    alone: Visitor, changing: Stage
) -> None:
    """The service says so to the page that waits; until then no trees are read."""
    page = alone.page
    page.add_init_script("window.setInterval = () => 0;")
    with page.expect_request(lambda request: "since=" in request.url):
        alone.come("#/cloud?name=quiet")
    top = page.get_by_label("Fullest trees").locator("li").first
    expect(top).to_contain_text("0 %")
    alone.settle()
    changing.asked.clear()

    changing.claim("newcomer", "shop", quiet={"VCPU": 4})

    expect(top).to_contain_text("50 %")
    assert set(changing.asked) == {("GET", "/-/trees", 200)}


def test_what_changes_between_reading_and_drawing_is_shown_without_a_pulse(
    alone: Visitor, changing: Stage
) -> None:
    """The page asks for the token of the changes first, and only then for the trees."""
    page = alone.page
    page.add_init_script("window.setInterval = () => 0;")

    def change_after_reading(route: Route) -> None:
        answer = route.fetch()
        changing.claim("newcomer", "shop", quiet={"VCPU": 4})
        route.fulfill(response=answer)

    page.route("**/-/trees?*", change_after_reading, times=1)
    alone.come("#/cloud?name=quiet")

    expect(page.get_by_label("Fullest trees").locator("li").first).to_contain_text("50 %")


def test_who_may_not_read_the_changes_sees_them_with_the_pulse(
    alone: Visitor, changing: Stage
) -> None:
    page = alone.page
    page.route("**/-/changes*", lambda route: route.fulfill(status=403))
    page.clock.install()
    alone.come("#/cloud?name=quiet")
    top = page.get_by_label("Fullest trees").locator("li").first
    expect(top).to_contain_text("0 %")

    changing.claim("newcomer", "shop", quiet={"VCPU": 4})
    page.clock.fast_forward(PULSE_MS)

    expect(top).to_contain_text("50 %")


def test_provider_with_an_empty_name_is_called_by_its_uuid(browser: Browser) -> None:
    """The API takes such a name, and a link without words cannot be followed."""
    uuid = key("host")
    with open_stage(insight__history_days=30.0) as stage, visiting(browser, stage.url) as visitor:
        stage.provider("host")
        stage.replace("host", "inventories", {"VCPU": {"total": 8}})
        stage.claim("web", "shop", host={"VCPU": 8})
        stage.send("PUT", f"/resource_providers/{uuid}", {"name": ""})

        visitor.come()
        page = visitor.page
        page.get_by_label("Fullest trees").get_by_role("link", name=uuid).click()
        expect(page.locator("h1")).to_contain_text(uuid)
        visitor.go(f"#/plan?empty={uuid}")
        expect(page.locator(".verdict")).to_contain_text(uuid)
        visitor.go(f"#/owners?consumer={key('web')}")
        page.get_by_role("heading", name="Activity").click()
        expect(page.locator(".writes").get_by_role("link", name=uuid)).to_be_visible()
