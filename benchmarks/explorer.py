"""The explorer's grid over a large cloud: ``python -m benchmarks.explorer --cloud flat-10k-busy2``.

One process of placement-api on a SQLite file, and Debian's chromium without a screen, which paints by the
processor. Printed are: how long the grid takes to appear after the data of the last page has come, the tasks
that block the page for longer than 50 ms, and the frames while the page scrolls and while the cloud is read
again because it has changed.
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import requests
from playwright.sync_api import Page, sync_playwright
from sqlalchemy import create_engine

from benchmarks import bulk
from benchmarks.beside_worst import HEADERS, serving
from benchmarks.clouds import cloud_named

SETTINGS = "[insight]\nenabled = true\npublic = explorer\n"
ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
SCROLL_S = 4
REREAD_S = 14
"""Longer than the page waits before it looks whether the cloud has changed."""

WATCH = """
    window.tasks = [];
    new PerformanceObserver((list) => tasks.push(...list.getEntries().map((it) => it.duration)))
        .observe({ type: "longtask", buffered: true });
    window.settled = 0;
    window.lastData = () => Math.max(...performance.getEntriesByType("resource")
        .filter((it) => it.name.includes("/-/trees")).map((it) => it.responseEnd));
    const look = () => {
        if (!settled && document.querySelector(".status")?.textContent.includes("Up to date"))
            requestAnimationFrame(() => { settled = performance.now(); });
        else if (!settled) requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
"""
FRAMES = """(milliseconds) => new Promise((resolve) => {
    const seen = [];
    const began = performance.now();
    let last = began;
    const look = (now) => {
        seen.push(now - last);
        last = now;
        if (now - began < milliseconds) requestAnimationFrame(look);
        else resolve(seen.slice(2));
    };
    requestAnimationFrame(look);
})"""
SCROLLING = """(milliseconds) => {
    const began = performance.now();
    const most = document.documentElement.scrollHeight - innerHeight;
    const step = (now) => {
        const part = ((now - began) / 1000) % 2;
        scrollTo(0, most * (part < 1 ? part : 2 - part));
        if (now - began < milliseconds) requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
}"""


def _report(what: str, frames: Sequence[float], tasks: Sequence[float]) -> None:
    p50, p99 = np.percentile(frames, [50, 99])
    per_second = 1000 * len(frames) / sum(frames)
    print(
        f"{what}: {per_second:.0f} frames a second (p50 {p50:.1f} ms, p99 {p99:.1f} ms, longest "
        f"{max(frames):.0f} ms); tasks over 50 ms: {[round(each) for each in tasks] or 'none'}"
    )


def _tasks(page: Page) -> list[float]:
    found: list[float] = page.evaluate("tasks.splice(0)")
    return found


def look(page: Page, url: str, change: Any) -> None:
    """Open the grid, scroll it, and let the cloud change under it; print what was seen."""
    page.add_init_script(WATCH)
    page.goto(f"{url}/-/explorer/")
    page.get_by_label("Token").fill("admin")
    page.keyboard.press("Enter")
    page.locator(".status", has_text="Up to date").wait_for(timeout=120_000)
    page.wait_for_timeout(200)
    settled, data = page.evaluate("[settled, lastData()]")
    pages = page.evaluate(
        "performance.getEntriesByType('resource').filter((it) => it.name.includes('/-/trees')).length"
    )
    print(f"the whole grid {settled - data:.0f} ms after the last of {pages} pages of data")
    print(f"while it was read: tasks over 50 ms: {[round(x) for x in _tasks(page)] or 'none'}")
    still = page.evaluate(FRAMES, 2000)
    _report("at rest", still, _tasks(page))
    page.evaluate(SCROLLING, SCROLL_S * 1000)
    _report("scrolling", page.evaluate(FRAMES, SCROLL_S * 1000), _tasks(page))
    change()
    _report("read again", page.evaluate(FRAMES, REREAD_S * 1000), _tasks(page))


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.explorer")
    parser.add_argument("--cloud", default="flat-10k-busy2")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        database = f"sqlite:///{folder}/placement.sqlite"
        with serving(Path(folder), database, 4, SETTINGS) as (url, _):
            engine = create_engine(database)
            cloud = cloud_named(options.cloud)
            traits, classes = cloud.names()
            for path in [f"/traits/{each}" for each in traits] + [
                f"/resource_classes/{each}" for each in classes
            ]:
                requests.put(url + path, headers=HEADERS, timeout=60).raise_for_status()
            bulk.insert_cloud(engine, cloud)
            engine.dispose()
            number = 0

            def change() -> None:
                nonlocal number
                for _ in range(20):
                    path = f"/resource_providers/{cloud.host_uuid(number * 37)}"
                    answer = requests.put(
                        url + path, json={"name": f"renamed-{number}"}, headers=HEADERS, timeout=60
                    )
                    assert answer.status_code == 200, answer.text
                    number += 1

            with sync_playwright() as player:
                browser = player.chromium.launch(
                    executable_path="/usr/bin/chromium", args=ARGUMENTS
                )
                for _ in range(options.rounds):
                    page = browser.new_page(viewport={"width": 1280, "height": 900})
                    look(page, url, change)
                    page.close()
                browser.close()


if __name__ == "__main__":
    main()
