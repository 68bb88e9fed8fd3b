"""The capacity view: how many fit, where, what stops the next; and draining a host on a copy."""

import re

from playwright.sync_api import expect

from tests.explorer.stage import Stage, key
from tests.support.browser import Visitor


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
    expect(page.locator(".places code")).to_be_visible()


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
    expect(page.locator(".verdict.could")).to_contain_text("Everybody on it would find a place")
    page.get_by_label("What if this host were drained?").fill("nobody")
    page.keyboard.press("Enter")
    expect(page.locator(".state-note")).to_contain_text("nobody")
