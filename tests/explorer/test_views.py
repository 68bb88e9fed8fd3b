"""Each view shows what the service says, and its address brings it back."""

import re

from playwright.sync_api import expect

from tests.explorer.stage import MARKUP, PULSE_MS, RACK, Stage, key
from tests.explorer.test_access import violations
from tests.support.browser import Visitor

COLOURS = """(canvas, places) => places.map(([x, y]) =>
    canvas.getContext("2d").getImageData(x, y, 1, 1).data.join())"""


def test_cloud_tells_which_tree_is_fullest_and_what_is_over(visitor: Visitor) -> None:
    visitor.come()
    page = visitor.page

    expect(page.locator(".summary")).to_have_text("6 trees with 10 providers")
    fullest = page.get_by_label("Fullest trees").locator("li")
    expect(fullest.first).to_contain_text("over")
    expect(fullest.first).to_contain_text("150 %")
    expect(fullest.nth(1)).to_contain_text("full")
    expect(fullest.nth(1)).to_contain_text("8 of 8 cores")
    expect(page.get_by_label("Over capacity")).to_contain_text("6 of 4 cores")
    memory = page.get_by_label("Capacity by class").get_by_role("row", name="Memory")
    expect(memory).to_contain_text("304 GiB")
    expect(memory).to_contain_text("16 GiB")


def test_cloud_is_filtered_and_the_filter_is_in_the_address(visitor: Visitor) -> None:
    visitor.come()
    page = visitor.page

    page.get_by_label("Trait").select_option("HW_NUMA_ROOT")
    expect(page.locator(".summary")).to_have_text("1 of 6 trees with 5 providers")
    assert "trait=HW_NUMA_ROOT" in page.url
    page.get_by_label("Aggregate").select_option(RACK)
    page.get_by_label("Trait").select_option("")
    expect(page.locator(".summary")).to_have_text("2 of 6 trees with 6 providers")
    page.get_by_role("searchbox").fill("poo")
    expect(page.locator(".summary")).to_have_text("1 of 6 trees with 1 provider")

    visitor.go("#/cloud?name=numa1-card")
    expect(page.locator(".summary")).to_have_text("1 of 6 trees with 5 providers")


def test_filter_that_nothing_matches_is_not_called_a_lack_of_inventories(visitor: Visitor) -> None:
    visitor.come("#/cloud?trait=CUSTOM_NOPE")
    page = visitor.page

    expect(page.locator(".summary")).to_have_text("0 of 6 trees with 0 providers")
    totals = page.get_by_label("Capacity by class")
    expect(totals.locator("p")).to_have_text(["No provider matches the filter."])


def test_cell_of_the_grid_names_its_tree_and_leads_there(visitor: Visitor) -> None:
    visitor.come("#/cloud?sort=name")
    page = visitor.page
    canvas = page.locator("tree-grid canvas")

    canvas.hover(position={"x": 60, "y": 15})
    expect(page.locator("tree-grid .tip")).to_have_text("full: 100 % cores in use")
    canvas.click(position={"x": 60, "y": 15})
    expect(page.locator("h1")).to_contain_text("full")
    assert key("full") in page.url


def test_tree_is_drawn_with_bars_consumers_and_who_shares(visitor: Visitor) -> None:
    visitor.come(f"#/tree/{key('numa0-card')}")
    page = visitor.page

    expect(page.locator("h1")).to_contain_text("gpus")
    boxes = page.get_by_label("The tree").locator(".provider-box")
    expect(boxes).to_have_count(5)
    marked = page.locator(".provider-box.marked")
    expect(marked).to_contain_text("numa0-card")
    expect(marked).to_contain_text("2 / 6 vGPUs")
    expect(page.locator(".shared .provider-box")).to_contain_text("pool")
    consumer = page.get_by_role("row", name=re.compile(key("render")))
    expect(consumer).to_contain_text("4 cores, 2 GiB memory, 2 vGPUs")
    expect(consumer).to_contain_text("film")
    page.get_by_label("The tree").get_by_text("1 trait").first.click()
    expect(page.get_by_text("HW_NUMA_ROOT").first).to_be_visible()


def test_tree_of_hundreds_begins_with_its_root(alone: Visitor, stage: Stage) -> None:
    """Every provider has its box, below its parent, which is the first thing to be seen."""
    stage.provider("rack")
    names = [f"rack-{number}" for number in range(300)]
    for name in names:
        stage.provider(name, "rack")
    alone.page.clock.install()
    alone.come(f"#/tree/{key('rack')}")
    boxes = alone.page.locator(".drawn-tree .provider-name > a")
    expect(boxes).to_have_count(301)
    assert boxes.all_inner_texts() == ["rack", *names]
    expect(boxes.first).to_be_in_viewport()
    stage.send("PUT", f"/resource_providers/{key('rack-7')}", {"name": "rack-seven"})
    alone.page.clock.fast_forward(PULSE_MS)
    expect(alone.page.get_by_role("link", name="rack-seven")).to_have_count(1)
    expect(boxes).to_have_count(301)
    for name in (*names, "rack"):
        stage.send("DELETE", f"/resource_providers/{key(name)}")


def test_tree_is_found_by_name(visitor: Visitor) -> None:
    visitor.come("#/owners")
    page = visitor.page
    page.keyboard.press("/")
    expect(page.get_by_label("Name or UUID")).to_be_focused()
    page.keyboard.type("UMA")
    options = page.locator("#provider-names option")
    expect(options).to_have_count(4)
    assert options.first.get_attribute("value") == "numa0"
    visitor.go("#/tree")
    page.get_by_role("link", name="quiet").click()
    # Until the browser follows the link, the page before it says that it is up to date.
    expect(page.locator("h1")).to_contain_text("quiet")
    visitor.settle()
    visitor.go("#/tree")
    expect(page.get_by_label("Seen last").get_by_role("link")).to_have_text(["quiet"])

    page.get_by_label("Name or UUID").fill("nobody")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="No provider has this name")).to_be_visible()
    page.get_by_label("Name or UUID").fill("uma1")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Trees").get_by_role("link")).to_have_text(["gpus"])
    page.get_by_label("Name or UUID").fill("numa1")
    page.keyboard.press("Enter")
    expect(page.locator(".provider-box.marked")).to_contain_text("numa1")


def test_owners_are_summed_and_a_consumer_is_shown_across_trees(visitor: Visitor) -> None:
    visitor.come("#/owners")
    page = visitor.page

    film = page.get_by_role("row", name=re.compile("^film"))
    expect(film).to_contain_text("100 GiB")
    expect(film).to_contain_text("2 vGPUs")
    film.get_by_role("link").click()
    page.get_by_role("link", name=key("render")).click()
    expect(page.locator("h1")).to_contain_text(key("render"))
    expect(page.locator(".provider-box.taken")).to_have_count(4)
    expect(page.locator(".summary")).to_contain_text("4 cores, 2 GiB memory, 100 GiB disk, 2 vGPUs")
    visitor.go("#/owners?by=type")
    expect(page.get_by_role("row", name=re.compile("^INSTANCE"))).to_contain_text("3")


def test_holds_and_groups_are_on_the_tree_and_the_consumer(visitor: Visitor, stage: Stage) -> None:
    """Two held members of a group on one host; the page of one leads to the other."""
    consumers = [key(name) for name in ("held-1", "held-2")]
    claim = {"consumer_generation": None, "project_id": "film", "user_id": "u", "groups": ["a/b"]}
    claim |= {"consumer_type": "INSTANCE", "query": f"resources=VCPU:1&in_tree={key('quiet')}"}
    body = {"groups": {"a/b": {"rule": "together"}}, "hold_s": 3600}
    body |= {"claims": [{"consumer_uuid": uuid, **claim} for uuid in consumers]}
    stage.send("POST", "/-/claims", body)
    visitor.come(f"#/tree/{key('quiet')}")
    page = visitor.page

    row = page.get_by_role("row", name=re.compile(consumers[0]))
    expect(row).to_contain_text(re.compile(r"held until \d\d:\d\d:\d\d · in a/b"))
    row.get_by_role("link", name=consumers[0]).click()
    expect(page.locator("h1")).to_contain_text(consumers[0])
    expect(page.locator(".summary")).to_contain_text(
        re.compile(r"1 core · held until \d\d:\d\d:\d\d$")
    )
    expect(page.get_by_text("2 members, together: all in one tree.")).to_be_visible()
    page.get_by_role("link", name=consumers[1]).click()
    expect(page.locator("h1")).to_contain_text(consumers[1])
    for uuid in consumers:
        stage.send("DELETE", f"/allocations/{uuid}")


def test_a_host_out_of_service_is_marked_and_counted(visitor: Visitor, stage: Stage) -> None:
    """In the counts, by its cell, in the ranking, and on its tree; not by a colour alone."""
    stage.replace("full", "traits", ["COMPUTE_STATUS_DISABLED"])
    visitor.come("#/cloud?sort=name")
    page = visitor.page
    expect(page.locator(".summary")).to_have_text("6 trees with 10 providers, 1 out of service")
    expect(page.get_by_label("Capacity by class")).to_contain_text(
        "Out of service, and counted here: 1 tree with 8 cores, 60 GiB memory."
    )
    canvas = page.locator("tree-grid canvas")
    canvas.hover(position={"x": 60, "y": 15})
    expect(page.locator("tree-grid .tip")).to_have_text("full: 100 % cores in use, out of service")
    # In the middle of the cell and above it; then the same of the cell before.
    assert len(set(canvas.evaluate(COLOURS, [[64, 20], [64, 7]]))) == 2
    assert len(set(canvas.evaluate(COLOURS, [[20, 20], [20, 7]]))) == 1
    mark = page.get_by_label("Fullest trees").get_by_role("listitem").filter(has_text="full")
    expect(mark.get_by_text("out of service")).to_be_visible()
    assert violations(visitor) == []
    page.get_by_role("link", name="1 out of service").click()
    expect(page.locator(".summary")).to_contain_text("1 of 6 trees")
    visitor.go(f"#/tree/{key('full')}")
    expect(page.locator(".summary")).to_contain_text("out of service")
    expect(page.get_by_label("The tree").get_by_text("out of service")).to_be_visible()
    assert violations(visitor) == []
    stage.replace("full", "traits", [])


def test_no_way_out_where_none_is_configured(visitor: Visitor) -> None:
    visitor.come(f"#/tree/{key('full')}")
    expect(visitor.page.get_by_role("row", name=re.compile(key("web")))).to_be_visible()
    expect(visitor.page.locator("a.out")).to_have_count(0)


def test_names_with_markup_are_text(visitor: Visitor) -> None:
    visitor.come("#/cloud?sort=name")
    page = visitor.page

    expect(page.get_by_label("Fullest trees").get_by_role("link", name=MARKUP)).to_be_visible()
    visitor.go(f"#/tree/{key(MARKUP)}")
    assert visitor.heading().startswith(MARKUP)
    visitor.go("#/owners")
    expect(page.get_by_role("link", name=MARKUP)).to_be_visible()
    visitor.go(f"#/cloud?trait={MARKUP}&name={MARKUP}")
    assert page.locator("img[onerror]").count() == 0
    assert "injected" not in page.title()


def test_page_asks_nobody_else(visitor: Visitor, stage: Stage) -> None:
    asked: list[str] = []
    visitor.page.on("request", lambda request: asked.append(request.url))
    visitor.come()
    for view in ("tree", "search", "capacity", "owners"):
        visitor.go(f"#/{view}")

    assert asked
    assert all(url.startswith(f"{stage.url}/") for url in asked)
    kept = visitor.page.evaluate("[localStorage.length, Object.keys(sessionStorage).sort()]")
    assert kept == [0, ["placement-token", "placement-token-accepted"]]
    assert visitor.page.evaluate("document.cookie") == ""
