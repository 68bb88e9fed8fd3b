"""Draw the pictures of the explorer anew from the example cloud: ``python -m docs._tools.explorer_pictures``.

Needs Debian's ``chromium`` and the extra ``test``. Starts the service on a database of its own, loads
``examples/cloud.yaml``, looks at it with a browser, and writes ``docs/images/explorer*.png``.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import requests
from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "docs" / "images"
CONSUMERS = 900
OUT_OF_SERVICE = ("b-general-03", "c-network-05", "d-gpu-01")
# Two whole GPUs on one host, next to the CPUs that use them.
TWO_GPUS = (
    "resources_CPU=VCPU:8&resources_GPU0=VGPU:4&resources_GPU1=VGPU:4&group_policy=isolate"
    "&same_subtree=_CPU,_GPU0,_GPU1"
)
PICTURES = {
    "explorer": ("#/cloud", "light", (1280, 1180)),
    "explorer-groups": (
        "#/cloud?group=002f55f4-3f94-5773-83be-61e51ee4316e",
        "light",
        (1280, 1180),
    ),
    "explorer-dark": ("#/cloud?class=VGPU", "dark", (1280, 900)),
    "explorer-search": (f"#/search?{TWO_GPUS}", "light", (1280, 900)),
    "explorer-none": (f"#/search?{TWO_GPUS}&root_required=HW_CPU_X86_AVX2", "light", (1280, 900)),
    "explorer-plan": ("#/plan?empty=d-gpu-02", "light", (1280, 1190)),
    "explorer-capacity": (
        "#/capacity?resources=VCPU:8,MEMORY_MB:16384,DISK_GB:80",
        "light",
        (1280, 900),
    ),
}


@contextmanager
def service(folder: str) -> Iterator[str]:
    """Yield the URL of a service with the example cloud."""
    settings = os.environ | {
        "OS_PLACEMENT_DATABASE__CONNECTION": f"sqlite:///{folder}/cloud.sqlite",
        "OS_PLACEMENT_DATABASE__SYNC_ON_STARTUP": "true",
        "OS_API__AUTH_STRATEGY": "noauth2",
        "OS_INSIGHT__ENABLED": "true",
        "OS_INSIGHT__PUBLIC": "explorer",
        "OS_INSIGHT__SHAPES_FILE": str(ROOT / "examples" / "shapes.yaml"),
        "OS_DEFAULT__LOG_FILE": f"{folder}/log",
    }
    command = [sys.executable, ROOT / "bin" / "placement-api", "--port", "0"]
    with subprocess.Popen(command, env=settings, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"listens on (\S+)", process.stdout.readline())
            assert found, "the service does not start"
            boot = [sys.executable, ROOT / "examples" / "boot_cloud.py", "--url", found[1]]
            subprocess.run([*boot, "--consumers", str(CONSUMERS)], check=True)
            disable_hosts(found[1])
            yield found[1]
        finally:
            process.terminate()


def disable_hosts(url: str) -> None:
    """Do what a compute service does of hosts that are disabled."""
    headers = {"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.39"}
    for name in OUT_OF_SERVICE:
        found = requests.get(f"{url}/resource_providers?name={name}", headers=headers, timeout=60)
        path = f"{url}/resource_providers/{found.json()['resource_providers'][0]['uuid']}/traits"
        body = requests.get(path, headers=headers, timeout=60).json()
        body["traits"].append("COMPUTE_STATUS_DISABLED")
        requests.put(path, headers=headers, json=body, timeout=60).raise_for_status()


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start Debian's browser."""
    with sync_playwright() as player:
        browser = player.chromium.launch(
            executable_path="/usr/bin/chromium",
            args=["--headless", "--no-sandbox", "--disable-gpu"],
        )
        yield browser
        browser.close()


def photograph(
    browser: Browser,
    url: str,
    file: Path,
    scheme: str = "light",
    size: tuple[int, int] = (1280, 900),
) -> str:
    """Write a picture of a page of the explorer, and return the text of the page."""
    width, height = size
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
    page.goto(url)
    page.get_by_label("Token").fill("admin")
    page.keyboard.press("Enter")
    page.locator(".status", has_text="Up to date").wait_for()
    page.screenshot(path=file)
    text = page.locator("main").inner_text()
    page.close()
    return text


def main() -> None:
    """Draw all, or those that are named."""
    names = sys.argv[1:] or list(PICTURES)
    with tempfile.TemporaryDirectory() as folder, service(folder) as url, chromium() as browser:
        for name in names:
            place, scheme, size = PICTURES[name]
            photograph(browser, f"{url}/-/explorer/{place}", IMAGES / f"{name}.png", scheme, size)


if __name__ == "__main__":
    main()
