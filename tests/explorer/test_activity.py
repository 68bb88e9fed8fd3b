"""Who wrote it: the activity of a host, a consumer and a project (specification 07 sections 7 and 11)."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect
from sqlalchemy import update

from placement.extensions.claims import tables as claims_tables
from tests.explorer.stage import Stage, key, open_stage
from tests.explorer.test_access import violations
from tests.support.browser import Visitor, visiting
from tests.support.processes import wait_until


def claim(stage: Stage, *consumers: str, **more: int) -> None:
    """Claim a core of the other host for each consumer, by one request."""
    one = {"consumer_generation": None, "consumer_type": "INSTANCE", "project_id": "film"}
    one |= {"user_id": "ann", "query": f"resources=VCPU:1&in_tree={key('other')}"}
    claims = [one | {"consumer_uuid": key(consumer)} for consumer in consumers]
    stage.send("POST", "/-/claims", {"claims": claims, **more})


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
        stage.provider("other")
        stage.replace("other", "inventories", {"VCPU": {"total": 64}})
        for name, inventory in (("card", "VGPU"), ("disk", "DISK_GB")):
            stage.provider(name, "other")
            stage.replace(name, "inventories", {inventory: {"total": 100}})
        stage.claim("wide", "film", other={"VCPU": 2}, card={"VGPU": 1}, disk={"DISK_GB": 10})
        yield stage


def test_who_took_it(visitor: Visitor) -> None:
    """A consumer that holds nothing any more shows what it held, and who has removed it."""
    visitor.come(f"#/owners?consumer={key('gone')}")
    page = visitor.page

    expect(page.get_by_role("heading", name="Holds nothing")).to_be_visible()
    page.get_by_role("heading", name="Activity").click()
    newest = page.locator(".writes > li").first
    expect(newest).to_contain_text("DELETE /allocations/{consumer_uuid}")
    expect(newest).to_contain_text("2 cores of host → nothing, project shop")
    expect(newest).to_contain_text("by admin of admin")
    expect(newest.get_by_role("link", name="host")).to_have_attribute(
        "href", f"#/tree/{key('host')}"
    )
    expect(page.locator(".writes > li")).to_have_count(2)
    assert violations(visitor) == []


def test_a_host_shows_page_after_page(visitor: Visitor) -> None:
    visitor.come(f"#/tree/{key('host')}")
    page = visitor.page

    page.get_by_role("heading", name="Activity").click()
    writes = page.locator(".writes > li")
    # The last request of a page may go on on the next one.
    expect(writes).to_have_count(24)
    expect(writes.first.get_by_role("link", name=key("more 29"))).to_be_visible()
    page.get_by_role("button", name="Earlier").click()
    expect(writes).to_have_count(35)
    expect(page.get_by_role("button", name="Earlier")).to_be_hidden()
    expect(writes.last).to_contain_text("created")
    expect(writes.nth(33)).to_contain_text("inventories: none → 64 cores (ratio 1.5)")
    expect(writes.nth(32)).to_contain_text("traits: none → HW_CPU_X86_AVX2")
    assert violations(visitor) == []


def test_a_project_shows_what_its_consumers_held(visitor: Visitor) -> None:
    visitor.come("#/owners?by=project&of=shop")
    page = visitor.page

    page.get_by_role("heading", name="Activity").click()
    expect(page.locator(".writes > li").first).to_contain_text("nothing → 1 core of host")


def test_a_claim_on_three_providers_is_one_entry_with_their_names(visitor: Visitor) -> None:
    visitor.come(f"#/owners?consumer={key('wide')}")
    visitor.page.get_by_role("heading", name="Activity").click()
    written = visitor.page.locator(".writes > li")
    expect(written).to_have_count(1)
    expect(written.locator(".what li")).to_have_text(
        ["nothing → 1 vGPU of card, 10 GiB disk of disk, 2 cores of other, project film"]
    )
    assert violations(visitor) == []


def test_request_that_goes_on_on_the_next_page_is_one_entry(visitor: Visitor) -> None:
    visitor.come("#/")
    counts = visitor.page.evaluate(
        """async () => {
            const { Requests } = await import(new URL("model/requests.js", document.baseURI));
            const requests = new Requests([]);
            const page = (...ids) => ids.map((request_id) => ({ request_id }));
            const shown = [requests.add(page("a", "b", "b"), false), requests.add(page("b", "c"), true)];
            return shown.map((writes) => writes.map((it) => it.length));
        }"""
    )
    assert counts == [[1], [3, 1]]


def test_holds_that_begin_and_end_are_told_as_such(alone: Visitor, stage: Stage) -> None:
    """Entries say less of a claim that is not known to have been held; nothing tells of those."""
    claim(stage, "late", hold_s=600)
    expired = update(claims_tables.consumer_holds).values(expires_at=0)
    with stage.service.db.engine.begin() as connection:
        connection.execute(expired)

    def is_removed() -> bool:
        # A search removes what has expired, unless something else is writing at this moment.
        stage.send("GET", "/allocation_candidates?resources=VCPU:1")
        return not stage.send("GET", f"/allocations/{key('late')}")["allocations"]

    wait_until("the hold is removed", is_removed)
    claim(stage, "firm")
    claim(stage, "confirmed", "held", hold_s=600)
    generations = [{"consumer_uuid": key("confirmed"), "consumer_generation": 1}]
    stage.send("POST", "/-/claims/confirm", {"consumers": generations})

    alone.come(f"#/tree/{key('other')}")
    alone.page.get_by_role("heading", name="Activity").click()
    written = alone.page.locator(".writes > li .what")
    film = "project film"
    expect(written.nth(0)).to_have_text(
        f"hold confirmed: keeps 1 core, consumer {key('confirmed')}, {film}"
    )
    begun = written.nth(1).locator("li")
    expect(begun).to_have_count(2)
    for name in ("confirmed", "held"):
        text = f"hold begins: nothing → 1 core, consumer {key(name)}, {film}"
        expect(begun.filter(has_text=key(name))).to_have_text(text)
    expect(written.nth(2)).to_have_text(f"nothing → 1 core, consumer {key('firm')}, {film}")
    expect(written.nth(3)).to_have_text(
        f"hold expired: 1 core → nothing, consumer {key('late')}, {film}"
    )
    expect(written.nth(4)).to_have_text(
        f"hold begins: nothing → 1 core, consumer {key('late')}, {film}"
    )


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
