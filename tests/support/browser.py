"""A real Chromium, and somebody who looks at the explorer with it."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect, sync_playwright

from tests.support.processes import PATIENCE, require_program

ARGUMENTS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
DESKTOP: ViewportSize = {"width": 1280, "height": 900}
ANSWER_MS = int(20_000 * PATIENCE)
GO = """place => new Promise((arrive) => {
    const before = location.href;
    addEventListener("hashchange", () => arrive(), { once: true });
    location.hash = place;
    if (location.href === before) arrive();
})"""
"""Returns when the page has begun to read the view: by then the one that is left has nothing more to say."""

# The time that a context is given does not hold for expect(), which would wait for five seconds.
expect.set_options(timeout=ANSWER_MS)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One for all tests of a process: two at once cannot be driven."""
    program = require_program("chromium")
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=program, args=ARGUMENTS, headless=True)
        yield made
        made.close()


class Visitor:
    """A tab with somebody in front of it."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.mistakes: list[str] = []
        page.set_default_timeout(ANSWER_MS)
        page.on("pageerror", lambda error: self.mistakes.append(str(error)))
        page.on("console", self._listen)

    def _listen(self, message: object) -> None:
        text = getattr(message, "text", "")
        # The browser reports every refused request itself; those are what some tests are about.
        if getattr(message, "type", "") == "error" and "Failed to load resource" not in text:
            self.mistakes.append(text)

    def come(self, place: str = "", token: str = "admin") -> None:
        """Open a view and sign in."""
        self.page.goto(f"{self.url}/-/explorer/{place}")
        self.page.get_by_label("Token").fill(token)
        self.page.keyboard.press("Enter")
        self.settle()

    def go(self, place: str) -> None:
        """Follow an address within the page."""
        wanted = f"{self.url}/-/explorer/{place}"
        if self.page.url != wanted:
            self.page.evaluate(GO, place)
        self.settle()

    def leave(self) -> None:
        """Leave the page and what it has stored, for somebody else to come; it has made no mistake."""
        self.page.evaluate("localStorage.clear(); sessionStorage.clear()")
        self.page.goto("about:blank")
        self.page.set_viewport_size(DESKTOP)
        assert self.mistakes == []

    def settle(self) -> None:
        """Wait until the page says that it is up to date."""
        expect(self.page.locator(".status")).to_have_text(
            re.compile("Up to date"), timeout=ANSWER_MS
        )

    def heading(self) -> str:
        return self.page.locator("h1").inner_text()

    def fits(self) -> bool:
        """Nothing sticks out of the window."""
        script = "document.documentElement.scrollWidth <= window.innerWidth"
        return bool(self.page.evaluate(script))


@contextmanager
def visiting(browser: Browser, url: str, **options: Any) -> Iterator[Visitor]:
    """Yield a visitor with a browser of its own, as a desktop in daylight unless ``options`` say otherwise.

    The page makes no mistake while it is used.
    """
    context = browser.new_context(**{"viewport": DESKTOP} | options)
    context.set_default_timeout(ANSWER_MS)
    made = Visitor(context.new_page(), url)
    yield made
    context.close()
    assert made.mistakes == []
