"""The page for everybody: axe-core finds nothing, the keyboard reaches everything, any width fits."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.explorer.stage import Stage, key
from tests.support.browser import Visitor, visiting
from tests.support.processes import lacking

AXE = Path(__file__).parent / "node_modules" / "axe-core" / "axe.min.js"
PLACES = {
    "cloud": "#/cloud",
    "tree": f"#/tree/{key('gpus')}",
    "owners": "#/owners",
    "owner": "#/owners?by=project&of=film",
    "consumer": f"#/owners?consumer={key('render')}",
    "finder": "#/tree?name=nobody",
    "fits": f"#/capacity?resources=VCPU:2&drain={key('gpus')}",
    "count": "#/capacity?resources=VCPU:2",
    "outlook": "#/outlook?level=aggregate",
    "form": "#/search",
    "candidates": "#/search?resources=VCPU:2,VGPU:1",
    "none": f"#/search?resources_A=VGPU:8&required_A=HW_CPU_X86_AVX2&about={key('quiet')}",
}


@pytest.fixture(params=[360, 1600])
def anybody(browser: Browser, stage: Stage, request: pytest.FixtureRequest) -> Iterator[Visitor]:
    with visiting(browser, stage.url, viewport={"width": request.param, "height": 800}) as made:
        yield made


def violations(visitor: Visitor) -> list[str]:
    """Return what axe-core has against the page as it is, and against its colours in the dark."""
    if not AXE.exists():
        lacking("the packages of tests/explorer/package.json")
    page = visitor.page
    if page.evaluate("typeof axe") == "undefined":
        page.evaluate(AXE.read_text())
    found = against(page, {})
    page.emulate_media(color_scheme="dark")
    expect(page.locator("html")).to_have_attribute("data-scheme", "dark")
    found += against(page, {"runOnly": ["color-contrast"]})
    page.emulate_media(color_scheme="light")
    return [
        f"{it['id']}: {node['target']} {node['failureSummary']}"
        for it in found
        for node in it["nodes"]
    ]


def against(page: Page, options: dict[str, list[str]]) -> list[Any]:
    """Return the violations alone: what is right fills megabytes."""
    script = "async options => (await axe.run(options)).violations"
    return page.evaluate(script, options | {"resultTypes": ["violations"]})


def test_every_view_is_accessible_and_fits(anybody: Visitor, stage: Stage) -> None:
    anybody.page.goto(f"{anybody.url}/-/explorer/")
    expect(anybody.page.get_by_label("Token")).to_be_focused()
    assert violations(anybody) == []
    anybody.come()
    for name, place in PLACES.items():
        anybody.go(place)
        assert anybody.fits(), name
        assert violations(anybody) == [], name
    for refused, heading in ((503, "The service does not answer"), (401, "Your token has expired")):
        stage.refuse = refused
        anybody.page.reload()
        expect(anybody.page.get_by_role("heading", name=heading)).to_be_visible()
        assert anybody.fits(), heading
        assert violations(anybody) == [], heading


def test_what_stands_above_every_view_is_one_line(visitor: Visitor) -> None:
    visitor.come()
    expect(visitor.page.get_by_text("Up to date at")).to_be_visible()
    boxes = [visitor.page.locator(part).bounding_box() for part in (".brand", ".corner")]
    brand, corner = (box["y"] + box["height"] / 2 for box in boxes if box)
    assert abs(brand - corner) < 5


def test_header_leaves_a_telephone_to_the_view(visitor: Visitor) -> None:
    """Everything in it stays within reach."""
    visitor.page.set_viewport_size({"width": 390, "height": 844})
    visitor.come()
    header = visitor.page.locator("header.top")
    box = header.bounding_box()
    assert box
    assert box["height"] < 100
    for part in ("nav a >> nth=0", "nav a >> nth=-1", "input", ".status", "button >> nth=-1"):
        expect(header.locator(part)).to_be_in_viewport(ratio=1)


def test_keyboard_alone_goes_from_the_cloud_to_a_tree_and_its_menu(visitor: Visitor) -> None:
    visitor.come()
    page = visitor.page
    press = page.keyboard.press

    page.get_by_role("link", name="To the view").focus()
    press("Enter")
    expect(page.locator("main")).to_be_focused()
    for _ in range(40):
        press("Tab")
        if page.evaluate("document.activeElement.className") == "field":
            break
    expect(page.get_by_role("application")).to_be_focused()
    press("End")
    press("ArrowLeft")
    press("Home")
    press("ArrowRight")
    expect(page.locator("tree-grid .spoken")).to_have_text("full: 100 % cores in use")
    press("Enter")
    expect(page.locator("h1")).to_contain_text("full")

    page.get_by_role("button", name="What to do with full").first.focus()
    press("Enter")
    expect(page.get_by_role("link", name="Look at its tree")).to_be_focused()
    press("Escape")
    expect(page.get_by_role("link", name="Look at its tree")).to_be_hidden()
    expect(page.get_by_role("button", name="What to do with full").first).to_be_focused()
