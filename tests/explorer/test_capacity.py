"""The capacity view: how many fit, where, what stops the next; and draining a host on a copy."""

import re
from pathlib import Path

from playwright.sync_api import Browser, expect
from sqlalchemy import insert

from placement.extensions.questions import tables as questions_tables
from tests.explorer.stage import RACK, Stage, fill, key, open_stage
from tests.explorer.test_access import violations
from tests.support.browser import Visitor, visiting


def test_number_that_fits_with_places_and_what_stops_the_next(
    visitor: Visitor, stage: Stage
) -> None:
    visitor.come("#/capacity?resources=VCPU:2")
    page = visitor.page

    # Four on each host with eight free cores, six and eight on the two nodes of the other.
    expect(page.locator(".big-number")).to_have_text("22 fit")
    places = page.locator(".places li")
    expect(places.first).to_contain_text("gpus")
    expect(places.first).to_contain_text("14")
    answer = stage.send("GET", "/-/capacity?resources=VCPU:2")
    expect(places).to_have_count(len(answer["places"]))
    for name, trees in answer["limits"].items():
        assert name == "VCPU"
        expect(page.locator(".pairs").first).to_contain_text(re.compile(rf"Cores{trees} trees?"))
    expect(page.get_by_role("heading", name="Largest that one provider could give")).to_be_visible()


def test_counting_by_aggregate_is_in_the_address(visitor: Visitor) -> None:
    visitor.come("#/capacity?resources=VGPU:1")
    page = visitor.page
    expect(page.locator(".big-number")).to_have_text("8 fit")
    page.get_by_label("by", exact=True).select_option("aggregates")
    visitor.settle()
    assert "by=aggregates" in page.url
    # As the view of the cloud calls it.
    place = page.locator(".places").get_by_role("link")
    expect(place).to_have_text(["gpus"])
    expect(place).to_have_attribute("title", RACK)
    place.click()
    expect(page.locator(".summary")).to_have_text("2 of 6 trees with 6 providers")


def test_nothing_asked_and_wrong_question(visitor: Visitor) -> None:
    visitor.come("#/capacity")
    page = visitor.page
    expect(page.get_by_role("heading", name="Ask how many fit")).to_be_visible()
    page.get_by_label("Resource class").first.fill("CUSTOM_NOWHERE")
    page.get_by_label("Amount").first.fill("1")
    page.get_by_role("button", name="How many fit?").click()
    expect(page.locator(".state-note")).to_contain_text("CUSTOM_NOWHERE")


def test_drained_host_tells_who_would_be_homeless(visitor: Visitor) -> None:
    visitor.come("#/capacity?resources=VCPU:2")
    page = visitor.page
    page.get_by_label("What if this host were drained?").fill("numa0")
    page.keyboard.press("Enter")

    result = page.locator(".verdict.cannot")
    expect(result).to_contain_text("If gpus were drained")
    expect(result).to_contain_text("1 consumer would find no place.")
    expect(result).to_contain_text("Of this request 8 would still fit, 22 do now.")
    row = result.get_by_role("row", name=re.compile(key("render")))
    expect(row).to_contain_text("film")
    expect(row).to_contain_text("2 vGPUs")
    page.get_by_label("What if this host were drained?").fill("quiet")
    page.keyboard.press("Enter")
    expect(page.locator(".verdict.could")).to_contain_text("All its consumers would find a place")
    page.get_by_label("What if this host were drained?").fill("nobody")
    page.keyboard.press("Enter")
    expect(page.locator(".state-note")).to_contain_text("nobody")


def test_drain_says_which_counts_were_cut(browser: Browser) -> None:
    """A bound of ten placements is reached before the cloud is full."""
    with open_stage(insight__work_factor=1) as stage:
        fill(stage)
        # Each node is another candidate, which takes a search.
        for number in range(40):
            stage.provider(f"node{number}", "gpus")
            stage.replace(f"node{number}", "inventories", {"VCPU": {"total": 1}})
        with visiting(browser, stage.url) as visitor:
            # On a busy machine the deadline may cut the count earlier: another answer may say another one.
            with visitor.page.expect_response("**/-/what-if") as answer:
                visitor.come(f"#/capacity?resources=VCPU:1&drain={key('quiet')}")
            told = answer.value.json()
            before, after = (told[when]["capacity"] for when in ("before", "after"))
            assert not before["complete"]
            assert not after["complete"]
            expect(visitor.page.locator(".verdict")).to_contain_text(
                f"at least {after['count']} would still fit, at least {before['count']} do now."
            )


def test_outlook_counts_shapes_and_names_who_must_not_fail(
    browser: Browser, tmp_path: Path
) -> None:
    shapes = tmp_path / "shapes.yaml"
    shapes.write_text("small: resources=VCPU:4\ngpu: resources=VGPU:1\n")
    with open_stage(insight__shapes_file=str(shapes)) as stage:
        fill(stage)
        with stage.service.db.engine.begin() as connection:
            rows = [
                {"shape": "small", "recorded_at": day * 86_400_000, "placements": number}
                for day, number in ((20_000, 20), (20_005, 10))
            ]
            connection.execute(insert(questions_tables.capacity_records), rows)
        with visiting(browser, stage.url) as visitor:
            visitor.come("#/outlook")
            table = visitor.page.get_by_label("Shapes").get_by_role("table")
            counts = stage.send("GET", "/-/capacity?shape=*")["shapes"]
            small = table.get_by_role("row", name=re.compile("^small"))
            expect(small).to_contain_text(f"{counts['small']['count']}")
            expect(small.get_by_role("img")).to_have_attribute(
                "aria-label", re.compile("From 20 .* to 10")
            )
            expect(small).to_contain_text("at 2 a day")
            gpu = table.get_by_role("row", name=re.compile("^gpu"))
            expect(gpu.get_by_text("not recorded")).to_have_count(2)
            expect(gpu.get_by_role("link")).to_have_text(["gpus"])
            expect(visitor.page.locator("[data-how-to-record]")).to_contain_text(
                "placement-manage capacity record"
            )
            expect(visitor.page.locator("[data-left-out]")).to_have_count(0)
            lost = stage.send("GET", "/-/survival")["lost"]
            worst = visitor.page.get_by_label("Worst").get_by_role("row")
            expect(worst).to_have_count(1 + len(lost))
            expect(worst.nth(1)).to_contain_text(lost[0]["name"])
            visitor.page.get_by_role("link", name="Aggregates").click()
            expect(visitor.page.locator("[data-summary]")).to_contain_text(
                "of 1 aggregate may fail"
            )
            expect(worst.nth(1).get_by_role("link").first).to_have_text("gpus")
            assert violations(visitor) == []


def test_outlook_says_how_many_hosts_are_left_out(browser: Browser, tmp_path: Path) -> None:
    """Of the shapes and of what must not fail: those that Nova has disabled."""
    shapes = tmp_path / "shapes.yaml"
    shapes.write_text("small: resources=VCPU:4\n")
    with open_stage(insight__shapes_file=str(shapes)) as stage:
        fill(stage)
        stage.provider("off")
        stage.replace("off", "traits", ["COMPUTE_STATUS_DISABLED"])
        with visiting(browser, stage.url) as visitor:
            visitor.come("#/outlook")
            for section in ("Shapes", "Survival"):
                left_out = visitor.page.get_by_label(section).locator("[data-left-out]")
                expect(left_out).to_contain_text("Left out: 1 host that takes nothing new")
