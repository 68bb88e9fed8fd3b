"""The search view: a question from cards, its answer on trees, and why there is none."""

import json
import os
import re
import shlex
import sys
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from playwright.sync_api import Locator, expect

from tests.explorer.stage import PULSE_MS, RACK, Stage, key
from tests.support.browser import Visitor
from tests.support.processes import ran

OPENSTACK = Path(sys.executable).with_name("openstack")


def question(visitor: Visitor) -> list[tuple[str, str]]:
    """Return the query that the address of the page holds."""
    return parse_qsl(urlsplit(visitor.page.url).fragment.partition("?")[2])


def remedies(visitor: Visitor) -> Locator:
    return visitor.page.locator(".answer > .remedies .remedy")


def test_question_from_the_keyboard_is_drawn_on_the_tree_that_could_take_it(
    visitor: Visitor,
) -> None:
    visitor.come("#/search")
    page = visitor.page
    page.get_by_label("Resource class").first.focus()
    press, write = page.keyboard.press, page.keyboard.insert_text
    press("Control+a")
    write("VGPU")
    press("Tab")
    write("2")
    press("Tab")
    press("Tab")
    write("")
    press("Control+a")
    write("VCPU")
    press("Tab")
    write("4")
    press("Enter")

    expect(page.get_by_role("heading", name="4 candidates")).to_be_visible()
    assert question(visitor) == [("resources", "VGPU:2,VCPU:4")]
    card = page.locator(".candidate")
    expect(card).to_have_count(1)
    expect(card.locator(".provider-box.taken")).to_have_count(2)
    expect(card).to_contain_text(re.compile(r"\+2 / \d vGPUs"))
    page.get_by_role("button", name="Next way").click()
    expect(card).to_contain_text("way 2 of 4")


@pytest.mark.parametrize("width", [1600, 1024, 360])
def test_candidate_is_drawn_within_its_card(visitor: Visitor, width: int) -> None:
    """Three boxes beside one another need more than a card has at 1,024 px; below one another they fit."""
    visitor.page.set_viewport_size({"width": width, "height": 900})
    visitor.come("#/search?resources=MEMORY_MB:1024&resources_CARD=VGPU:1&group_policy=none")
    body = visitor.page.locator(".candidate-body").first
    expect(body.get_by_text("numa0", exact=True)).to_be_visible()
    assert body.evaluate("it => it.scrollWidth <= it.clientWidth")


def test_groups_with_rules_reach_the_address_and_come_back_from_it(visitor: Visitor) -> None:
    visitor.come(f"#/search?resources=MEMORY_MB:1024&member_of={RACK}")
    page = visitor.page
    page.get_by_role("button", name="+ Group").click()
    page.get_by_role("group", name="Group").get_by_label("Resource class").fill("VGPU")
    page.get_by_role("button", name="+ Group").click()
    second = page.get_by_role("group", name="Group", exact=True).nth(1)
    second.get_by_label("Resource class").fill("VGPU")
    second.get_by_role("button", name="+ Condition").click()
    second = page.get_by_role("group", name="Group", exact=True).nth(1)
    second.get_by_label("Condition", exact=True).select_option("lacks")
    second.get_by_label("lacks trait").fill("HW_CPU_X86_AVX2")
    page.get_by_label("Each on a provider of its own").check()
    page.get_by_role("button", name="Search", exact=True).click()

    expect(page.get_by_role("heading", name="2 candidates")).to_be_visible()
    asked = [
        ("resources", "MEMORY_MB:1024"), ("member_of", RACK), ("resources_1", "VGPU:1"),
        ("resources_2", "VGPU:1"), ("required_2", "!HW_CPU_X86_AVX2"), ("group_policy", "isolate"),
    ]  # fmt: skip
    assert question(visitor) == asked
    shared = page.url
    visitor.go("#/cloud")
    page.goto(shared)
    visitor.settle()
    page.get_by_role("button", name="Search", exact=True).click()
    visitor.settle()
    assert question(visitor) == asked


def test_nothing_found_says_why_who_is_closest_and_what_would_help(visitor: Visitor) -> None:
    visitor.come("#/search?resources=VGPU:8,VCPU:2")
    page = visitor.page

    expect(page.get_by_role("heading", name="Nothing could take this")).to_be_visible()
    expect(page.locator(".ended")).to_have_text(
        "No single provider can give this much. (Virtual GPUs)"
    )
    dead = page.locator(".step.dead")
    expect(dead).to_contain_text("0 of 10 providers left")
    expect(dead).to_contain_text("4 vGPUs free of 8 vGPUs asked")
    expect(remedies(visitor)).to_have_text(
        [
            re.compile(r"Take 8 vGPUs from 2 providers instead of one\d+ candidate"),
            re.compile(r"Ask for 4 vGPUs instead of 8 vGPUs\d+ candidate"),
            re.compile(r"Without 8 vGPUs\d+ candidates"),
        ]
    )
    page.get_by_role("button", name="Ask for 4 vGPUs").click()
    expect(page.get_by_role("heading", name=re.compile("candidates"))).to_be_visible()
    assert question(visitor) == [("resources", "VGPU:4,VCPU:2")]
    page.go_back()
    page.get_by_role("button", name="Take 8 vGPUs").click()
    expect(page.get_by_role("heading", name=re.compile("candidate"))).to_be_visible()
    assert dict(question(visitor))["group_policy"] == "isolate"
    expect(page.locator(".provider-box.taken").filter(has_text="vGPUs")).to_have_count(2)


def test_relaxation_is_applied_by_a_click_and_its_number_is_that_of_the_api(
    visitor: Visitor, stage: Stage
) -> None:
    visitor.come("#/search?resources=VCPU:4&required=HW_CPU_X86_AVX2,HW_NUMA_ROOT")
    page = visitor.page
    expect(remedies(visitor).first).to_contain_text("the trait")
    for trait in ("HW_CPU_X86_AVX2", "HW_NUMA_ROOT"):
        other = {"HW_CPU_X86_AVX2", "HW_NUMA_ROOT"} - {trait}
        answer = stage.send(
            "GET", f"/allocation_candidates?resources=VCPU:4&required={other.pop()}"
        )
        promised = len(answer["allocation_requests"])
        button = page.get_by_role("button", name=re.compile(f"Without the trait {trait}"))
        expect(button).to_contain_text(re.compile(rf"{promised} candidate"))
        button.click()
        expect(
            page.get_by_role("heading", name=re.compile(rf"^{promised} candidate"))
        ).to_be_visible()
        assert trait not in page.url
        page.go_back()
        expect(page.get_by_role("heading", name="Nothing could take this")).to_be_visible()


def test_why_not_this_host_from_its_menu(visitor: Visitor) -> None:
    visitor.come("#/search?resources=VGPU:1")
    page = visitor.page
    expect(page.get_by_role("heading", name="2 candidates")).to_be_visible()
    visitor.go(f"#/tree/{key('quiet')}")
    page.get_by_role("button", name="What to do with quiet").first.click()
    page.get_by_role("link", name="Why not this host?").click()

    verdict = page.locator(".verdict")
    expect(verdict).to_contain_text("quiet cannot take this: no provider of the tree has VGPU.")
    assert question(visitor) == [("resources", "VGPU:1"), ("about", key("quiet"))]
    page.get_by_role("button", name="Ask about the whole cloud").click()
    expect(verdict).to_be_hidden()
    visitor.go(f"#/search?resources=VGPU:1&about={key('numa1')}")
    expect(page.locator(".verdict.could")).to_contain_text("numa1 could take this.")


@pytest.mark.parametrize("more", ["", "&limit=2"])
def test_refresh_with_the_same_candidates_draws_nothing_anew(
    alone: Visitor, stage: Stage, more: str
) -> None:
    """The service answers each time in another order, and under a limit other hosts."""
    page = alone.page
    page.clock.install()
    alone.come(f"#/search?resources=MEMORY_MB:1024{more}")
    expect(page.locator(".candidate").first).to_be_visible()
    shown = page.locator(".candidates").inner_text()
    for _ in range(6):
        stage.asked.clear()
        before = page.locator(".status").inner_text()
        page.clock.fast_forward(PULSE_MS)
        expect(page.locator(".status")).not_to_have_text(before)
        alone.settle()
        assert stage.asked == [("GET", "/allocation_candidates", 200)]

    assert page.locator(".candidates").inner_text() == shown


def test_question_without_amounts_says_what_is_missing(visitor: Visitor) -> None:
    visitor.come("#/search")
    page = visitor.page
    page.get_by_role("button", name="Search", exact=True).click()
    expect(page.get_by_text("Give at least one class an amount.")).to_be_visible()
    expect(page.get_by_label("Amount").first).to_be_focused()


def test_wrong_question_is_answered_in_the_words_of_the_service(visitor: Visitor) -> None:
    visitor.come("#/search?resources=CUSTOM_NOWHERE:1")
    note = visitor.page.locator(".state-note")
    expect(note).to_contain_text("The service does not understand this")
    expect(note).to_contain_text("CUSTOM_NOWHERE")


def test_the_same_question_elsewhere_has_the_same_answer(visitor: Visitor, stage: Stage) -> None:
    visitor.come(
        "#/search?resources_A=VGPU:1&resources_B=VCPU:1&required_B=in:HW_NUMA_ROOT,HW_CPU_X86_AVX2"
        f"&required_A=!HW_CPU_X86_AVX2&resources=MEMORY_MB:1&member_of=in:{RACK},{key('quiet')}"
        "&group_policy=none"
    )
    page = visitor.page
    page.get_by_text("Ask this elsewhere").click()
    lines = page.locator(".copy-line")
    address, curl, why, openstack, explain = (
        lines.nth(n).locator("code").inner_text() for n in range(5)
    )
    settings = os.environ | {"OS_TOKEN": "admin"}

    def shell(command: str) -> str:
        return ran(["/bin/sh", "-c", command], check=True, env=settings).stdout

    answer = json.loads(shell(curl))
    assert answer["allocation_requests"]
    assert answer == stage.send("GET", address.removeprefix(stage.url))
    assert json.loads(shell(why))["candidates"]["count"] == len(answer["allocation_requests"])
    command = shlex.split(openstack)
    assert command[0] == "openstack"
    endpoint = f"--os-auth-type admin_token --os-token admin --os-endpoint {stage.url} -f json"

    def run(words: list[str]) -> Any:
        return json.loads(shell(f"{shlex.quote(str(OPENSTACK))} {shlex.join(words)} {endpoint}"))

    listed = run(command[1:])
    assert {row["#"] for row in listed} == set(range(1, len(answer["allocation_requests"]) + 1))
    assert run(shlex.split(explain)[1:])
