"""The plan view: what must move so that a request fits or a host is empty, drawn, listed, and in words."""

import json
import re
import shlex
import subprocess
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Route, expect

from tests.explorer.stage import Stage, key, open_stage
from tests.explorer.test_access import violations
from tests.support.browser import Visitor

LARGE = "resources=VCPU:14"
WIDTHS = [1600, 1024, 360]


@pytest.fixture(scope="module")
def filled() -> Iterator[Stage]:
    """Four hosts, each with two servers and half of its cores free; one more has a card that no other has."""
    with open_stage() as stage:
        for number in range(4):
            name = f"compute-{number}"
            stage.provider(name)
            stage.replace(
                name, "inventories", {"VCPU": {"total": 16}, "MEMORY_MB": {"total": 65536}}
            )
            for each in range(2):
                held = {"VCPU": 4, "MEMORY_MB": 8192}
                stage.claim(f"server-{number}-{each}", "shop", **{name: held})
        stage.provider("gpus")
        stage.replace("gpus", "inventories", {"VCPU": {"total": 2}, "VGPU": {"total": 2}})
        stage.claim("render", "film", gpus={"VCPU": 2, "VGPU": 1})
        yield stage


def rows(visitor: Visitor) -> Locator:
    return visitor.page.get_by_label("Steps", exact=True).locator("tbody tr")


def test_search_that_finds_nothing_leads_to_what_must_move(visitor: Visitor, stage: Stage) -> None:
    visitor.come(f"#/search?{LARGE}&limit=5")
    page = visitor.page
    page.get_by_role("link", name="What must move?").click()

    verdict = page.locator(".verdict.could")
    expect(verdict.get_by_role("heading")).to_have_text("2 moves make room")
    expect(verdict).to_contain_text("It is proven that fewer are not enough.")
    assert page.url.endswith(f"#/plan?{LARGE}")
    told = stage.send("POST", "/-/plans", {"goal": {"place": LARGE}})
    assert (told["cost"], told["minimal"]) == (2, True)
    expect(rows(visitor)).to_have_count(2)
    target = re.search(r"room on (compute-\d)\.", verdict.inner_text())
    assert target, verdict.inner_text()
    for number, row in enumerate(rows(visitor).all(), 1):
        expect(row.get_by_role("rowheader")).to_have_text(str(number))
        expect(row.locator("td").nth(1)).to_contain_text(target[1])
        expect(row.locator("td").nth(2)).not_to_contain_text(target[1])
        expect(row).to_contain_text("4 cores, 8 GiB memory")
    page.get_by_role("link", name=target[1]).first.click()
    expect(page.locator("h1")).to_contain_text(target[1])


def test_arrows_lead_from_where_it_stands_to_where_it_goes(visitor: Visitor) -> None:
    """The line on which each begins and ends is that of the host which the table names."""
    visitor.come(f"#/plan?{LARGE}")
    page = visitor.page
    names = page.locator(".move-hosts li").all_inner_texts()
    expect(page.get_by_role("img")).to_have_attribute("aria-label", re.compile("2 steps as arrows"))
    boxes = page.locator(".move-hosts li")
    for at, row in enumerate(rows(visitor).all()):
        arrow = page.locator(".move").nth(at)
        for part, cell in (("circle", 1), ("path", 2)):
            name = row.locator("td").nth(cell).locator("a").inner_text()
            line = boxes.nth(names.index(name)).bounding_box()
            drawn = arrow.locator(part).bounding_box()
            assert line
            assert drawn
            assert line["y"] <= drawn["y"]
            assert drawn["y"] + drawn["height"] <= line["y"] + line["height"]
    expect(page.locator(".move-end")).to_have_text(["fits here"])
    expect(page.locator(".move-hosts .goal")).to_have_text(names[0])


def test_host_is_emptied_from_its_menu_and_from_its_page(visitor: Visitor) -> None:
    visitor.come(f"#/tree/{key('compute-1')}")
    page = visitor.page
    page.get_by_role("button", name="What to do with compute-1").first.click()
    page.get_by_role("list").get_by_role("link", name="Empty this host").click()
    heading = page.locator(".verdict.could").get_by_role("heading")
    expect(heading).to_have_text("2 moves empty compute-1")
    expect(page.locator(".move-end")).to_have_text(["is empty"])
    expect(rows(visitor)).to_have_count(2)

    visitor.go(f"#/tree/{key('compute-2')}")
    page.get_by_role("link", name="Empty this host").click()
    expect(heading).to_have_text("2 moves empty compute-2")
    page.get_by_label("Empty this host").fill("compute-3")
    page.keyboard.press("Enter")
    expect(heading).to_have_text("2 moves empty compute-3")
    page.get_by_label("Empty this host").fill("nobody")
    page.keyboard.press("Enter")
    expect(page.locator(".state-note")).to_contain_text("No provider has the name nobody.")


def test_nothing_must_move(visitor: Visitor) -> None:
    visitor.come("#/plan")
    page = visitor.page
    expect(page.get_by_role("heading", name="Make room, or empty a host")).to_be_visible()
    page.get_by_label("Amount").first.fill("8")
    page.get_by_role("button", name="What must move?").first.click()
    expect(page.locator(".verdict.could")).to_contain_text("It fits as it is: nothing must move")
    expect(page.locator(".moves")).to_have_count(0)


def test_no_plan_says_who_cannot_leave_and_why_it_does_not_fit(visitor: Visitor) -> None:
    visitor.come(f"#/plan?empty={key('gpus')}")
    page = visitor.page
    verdict = page.locator(".verdict.cannot")
    expect(verdict.get_by_role("heading")).to_have_text("No moves empty gpus")
    expect(verdict).to_contain_text("It is proven: whatever moves, in whatever order.")
    expect(verdict).to_contain_text("1 consumer cannot leave:")
    expect(verdict.get_by_role("row", name=re.compile(key("render")))).to_contain_text("1 vGPU")

    visitor.go("#/plan?resources=VCPU:17")
    expect(verdict.get_by_role("heading")).to_have_text("No moves make room for this")
    expect(page.locator(".step.dead")).to_contain_text("0 of 5 providers left")
    page.get_by_role("link", name="What else would make it fit?").click()
    expect(page.get_by_role("heading", name="Nothing could take this")).to_be_visible()
    visitor.go("#/plan?resources=CUSTOM_NOWHERE:1")
    expect(page.locator(".state-note")).to_contain_text("CUSTOM_NOWHERE")


def test_plan_that_is_not_proven_says_what_is_known(visitor: Visitor) -> None:
    """Such answers come from large clouds: here the page is given one."""

    def cut(route: Route) -> None:
        fetched = route.fetch()
        known = {"cost": 4, "lower_bound": 1.2, "minimal": False, "complete": False}
        route.fulfill(response=fetched, json={**fetched.json(), **known})

    page = visitor.page
    page.route("**/-/plans", cut)
    visitor.come(f"#/plan?{LARGE}")
    verdict = page.locator(".verdict.could")
    page.unroute("**/-/plans")
    expect(verdict).to_contain_text(
        "It is proven that fewer than 2 are not enough; whether 4 are the fewest is not. "
        "The time for the search was over: another try may find a shorter plan."
    )


def test_search_for_a_plan_that_is_given_up_can_be_tried_again(visitor: Visitor) -> None:
    detail = "The search for a plan took too long and was given up."
    error = {"status": 503, "code": "placement.search_given_up", "detail": detail}
    page = visitor.page
    page.route("**/-/plans", lambda route: route.fulfill(status=503, json={"errors": [error]}))
    visitor.come(f"#/plan?{LARGE}")
    page.unroute("**/-/plans")
    expect(page.get_by_role("heading", name="No plan was found in time")).to_be_visible()
    expect(page.locator(".state-note")).to_contain_text(detail)
    page.get_by_role("button", name="Try again").click()
    expect(page.locator(".verdict.could")).to_contain_text("2 moves make room")


def test_refresh_plans_nothing_anew(alone: Visitor, stage: Stage) -> None:
    """A plan is work, and what is under the eyes stays."""
    alone.page.clock.install()
    alone.come(f"#/plan?{LARGE}")
    expect(rows(alone)).to_have_count(2)
    stage.asked.clear()
    before = alone.page.locator(".status").inner_text()
    alone.page.clock.fast_forward(11_000)
    expect(alone.page.locator(".status")).not_to_have_text(before)
    assert [path for _, path, _ in stage.asked if path == "/-/plans"] == []


@pytest.mark.parametrize("width", [1280, 390])
def test_consumer_of_a_step_is_in_sight_and_the_table_says_that_it_scrolls(
    visitor: Visitor, width: int
) -> None:
    visitor.page.set_viewport_size({"width": width, "height": 844})
    visitor.come(f"#/plan?empty={key('compute-1')}")
    page = visitor.page
    steps = page.get_by_label("Steps", exact=True)
    box, link = steps.bounding_box(), rows(visitor).first.locator("a.uuid").bounding_box()
    assert box
    assert link
    assert link["x"] + link["width"] <= box["x"] + box["width"]

    hint = page.locator(".scrolls", has=steps).locator(".scroll-hint")
    page.set_viewport_size({"width": 390, "height": 844})
    expect(hint).to_be_visible()
    steps.evaluate("it => it.scrollTo(it.scrollWidth, 0)")
    expect(hint).to_be_hidden()
    page.set_viewport_size({"width": 1600, "height": 844})
    expect(hint).to_be_hidden()


def test_commands_that_do_it_stand_below_the_plan(visitor: Visitor) -> None:
    """As docs/howto/make-room.rst prints them; no command stands below a plan without steps."""
    visitor.come(f"#/plan?empty={key('compute-1')}")
    section = visitor.page.get_by_label("Do it")
    expect(section.locator("code")).to_have_text([
        "openstack compute service set --disable compute-1 nova-compute",
        "openstack placement plan run --empty compute-1 --dry-run",
        "openstack placement plan run --empty compute-1",
        "openstack placement plan create --empty compute-1 --commands",
    ])  # fmt: skip
    visitor.go(f"#/plan?{LARGE}")
    run = f"openstack placement plan run --place {LARGE}"
    expect(section.locator("code").nth(1)).to_have_text(run)
    expect(section).not_to_contain_text("--disable")
    visitor.go("#/plan?resources=VCPU:8")
    expect(visitor.page.locator(".verdict.could")).to_contain_text("nothing must move")
    expect(section).to_have_count(0)


@pytest.mark.parametrize("width", WIDTHS)
def test_plan_is_accessible_and_fits(visitor: Visitor, width: int) -> None:
    visitor.page.set_viewport_size({"width": width, "height": 900})
    visitor.come(f"#/plan?{LARGE}")
    for place in (f"#/plan?{LARGE}", f"#/plan?empty={key('gpus')}", "#/plan"):
        visitor.go(place)
        assert visitor.fits(), place
        assert violations(visitor) == [], place


def test_commands_to_copy_are_words_to_a_shell_whatever_was_typed(visitor: Visitor) -> None:
    """A dollar sign before a quote means something to JavaScript's replace, too."""
    visitor.come("#/")
    for typed in ("$'; touch x #", "$&", "$`", "it's", "$(touch x)", "a;b"):
        commands = visitor.page.evaluate(
            """async (place) => {
                const made = await import(new URL("model/commands.js", document.baseURI));
                const asked = made.planCommands("http://host/-/plans", "1.39", { place });
                const toNova = (host) => made.carryOutCommands({ empty: { trees: ["uuid"] } }, host);
                return [...asked, ...toNova(place), ...toNova(`-${place}`)].map((it) => it.text);
            }""",
            typed,
        )
        curl, openstack, disable, dry_run, run, listed, *like_an_option = map(shlex.split, commands)
        assert json.loads(curl[curl.index("-d") + 1]) == {"goal": {"place": typed}}
        assert curl[-1] == "http://host/-/plans"
        assert openstack[-1] == disable[-2] == dry_run[-2] == run[-1] == listed[-2] == typed
        assert [words[words.index("--empty") + 1] for words in like_an_option] == ["uuid"] * 3


def read_by_bash(command: str) -> list[str]:
    """Return the words of a command."""
    script = f"set -f; words() {{ printf '%s\\0' \"$@\"; }}; words {command}"
    done = subprocess.run(["bash", "-c", script], check=True, capture_output=True)
    return done.stdout.decode().split("\0")[:-1]


@pytest.mark.parametrize("typed", ["a\x15touch x\n", "\x1b]0;t\x07'\\\u202e$(x)", "\u00a0\U0001f600\r7"])
def test_no_command_to_copy_has_what_a_terminal_acts_on(visitor: Visitor, typed: str) -> None:
    """Pasted, a ^U deletes the quote before it, and what follows is a command; bash reads $'...' back."""
    visitor.come("#/")
    commands = visitor.page.evaluate(
        """async (place) => {
            const made = await import(new URL("model/commands.js", document.baseURI));
            const asked = made.planCommands("http://host/-/plans", "1.39", { place });
            const toNova = made.carryOutCommands({ empty: { trees: ["uuid"] } }, place);
            return [...asked, ...toNova].map((it) => it.text);
        }""",
        typed,
    )
    curl, *words = commands
    for command in commands:
        assert command.isprintable(), command
    body = json.dumps({"goal": {"place": typed}})
    assert [json.loads(it) for it in read_by_bash(curl) if it.startswith("{")] == [json.loads(body)]
    for command in words:
        assert typed in read_by_bash(command)
