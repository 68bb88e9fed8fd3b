"""Who wrote it: the activity of a host, a consumer and a project (specification 07 sections 7 and 11)."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.explorer.stage import Stage, key, open_stage
from tests.explorer.test_access import violations
from tests.support.browser import Visitor, visiting


@pytest.fixture(scope="module")
def filled() -> Iterator[Stage]:
    """The service, which keeps the history, with a host on which much has happened."""
    with open_stage(insight__history_days=30.0) as stage:
        stage.provider("host")
        stage.replace("host", "inventories", {"VCPU": {"total": 64, "allocation_ratio": 1.5}})
        stage.replace("host", "traits", ["HW_CPU_X86_AVX2"])
        stage.claim("gone", "shop", host={"VCPU": 2})
        stage.world.release(key("gone"))
        for number in range(30):
            stage.claim(f"more {number}", "shop", host={"VCPU": 1})
        yield stage


def test_who_took_it(visitor: Visitor) -> None:
    """A consumer that holds nothing any more shows what it held, and who has removed it."""
    visitor.come(f"#/owners?consumer={key('gone')}")
    page = visitor.page

    expect(page.get_by_role("heading", name="Holds nothing")).to_be_visible()
    page.get_by_role("heading", name="Activity").click()
    newest = page.locator(".writes > li").first
    expect(newest).to_contain_text("DELETE /allocations/{consumer_uuid}")
    expect(newest).to_contain_text("2 cores → nothing")
    expect(newest).to_contain_text("project shop")
    expect(newest).to_contain_text("by admin of admin")
    expect(newest.get_by_role("link", name=key("host"))).to_be_visible()
    expect(page.locator(".writes > li")).to_have_count(2)
    assert violations(visitor) == []


def test_a_host_shows_page_after_page(visitor: Visitor) -> None:
    visitor.come(f"#/tree/{key('host')}")
    page = visitor.page

    page.get_by_role("heading", name="Activity").click()
    writes = page.locator(".writes > li")
    expect(writes).to_have_count(25)
    expect(writes.first.get_by_role("link", name=key("more 29"))).to_be_visible()
    page.get_by_role("button", name="Earlier").click()
    expect(writes).to_have_count(35)
    expect(page.get_by_role("button", name="Earlier")).to_be_hidden()
    expect(writes.last).to_contain_text("has come")
    expect(writes.nth(33)).to_contain_text("inventories: none → 64 cores (ratio 1.5)")
    expect(writes.nth(32)).to_contain_text("traits: none → HW_CPU_X86_AVX2")
    assert violations(visitor) == []


def test_a_project_shows_what_its_consumers_held(visitor: Visitor) -> None:
    visitor.come("#/owners?by=project&of=shop")
    page = visitor.page

    page.get_by_role("heading", name="Activity").click()
    expect(page.locator(".writes > li").first).to_contain_text("nothing → 1 core")


def test_what_happens_meanwhile_is_shown(alone: Visitor, stage: Stage) -> None:
    """The section stays open, and is read again with the view."""
    alone.come(f"#/owners?consumer={key('meanwhile')}")
    page = alone.page
    page.get_by_role("heading", name="Activity").click()
    expect(page.get_by_text("Nothing was written that is still known.")).to_be_visible()

    stage.claim("meanwhile", "shop", host={"VCPU": 3})

    expect(page.locator(".writes > li")).to_contain_text("nothing → 3 cores")


def test_without_history_the_option_is_named(browser: Browser) -> None:
    with open_stage() as stage, visiting(browser, stage.url) as visitor:
        stage.provider("host")
        visitor.come(f"#/tree/{key('host')}")
        visitor.page.get_by_role("heading", name="Activity").click()
        expect(visitor.page.get_by_role("heading", name="No history is kept")).to_be_visible()
        expect(visitor.page.get_by_text("[insight]/history_days")).to_be_visible()
