"""README in an empty clone: its commands in their order, and pictures of the cloud that they make.

One bash runs the commands of README from top to bottom, beginning with ``git clone``. ``tools/serve`` runs
beside it, as in a terminal of its own. A clone has no ``.venv``. The clone borrows the environment of this
interpreter and runs the code of this checkout, which takes seconds; with ``PLACEMENT_TEST_LONG=1``
``tools/serve`` and ``pip`` install the clone instead. ::

    python -m docs._tools.empty_clone        # write the output into README, and draw its pictures
"""

import os
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser

from docs._tools.explorer_pictures import IMAGES, chromium, photograph
from docs._tools.live_pages import DOCS, README, Shell, rewritten

ROOT = DOCS.parent
REPOSITORY = "REPOSITORY"
SERVE = "tools/serve"
INSTALLS = bool(os.environ.get("PLACEMENT_TEST_LONG"))
MARKER = "installed-plans-"
"""By this file ``tools/environment`` knows that ``tools/serve`` has installed."""
PICTURES = {"readme-cloud": "#/cloud", "readme-plan": "#/plan?empty=a-gpu-04"}
"""Files of ``docs/images``, with the place in the explorer that each one shows."""


class CloneShell(Shell):
    """A bash in an empty folder, for which ``tools/serve`` starts a service that goes on."""

    def __init__(self, folder: Path, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._clone = folder / "placement"
        self._start = (
            f"{SERVE} --port {port} >serve.log 2>&1 & SERVER=$!\n"
            f"until curl -s -o /dev/null {self.url}/; do\n"
            "kill -0 $SERVER || { cat serve.log; break; }; sleep 0.2; done"
        )
        super().__init__(folder, self.url, _environment(folder), ((str(ROOT), REPOSITORY),))

    def run(self, command: str) -> str:
        """Return what the command prints; of ``tools/serve`` only what it prints when it fails."""
        before, serves, after = command.partition(SERVE)
        printed = super().run(before) if serves else super().run(command)
        if not serves:
            return printed
        assert not after, "nothing follows tools/serve in its terminal"
        if not INSTALLS:
            lend_environment(self._clone)
        return printed + super().run(self._start)

    def close(self) -> None:
        """End the service and the shell."""
        super().run("kill $SERVER; wait")
        super().close()


def _environment(folder: Path) -> dict[str, str]:
    """Return the variables of a shell that knows nothing of this checkout, unless it borrows from it."""
    of_pip = {name: word for name, word in os.environ.items() if name.startswith("PIP_")}
    return of_pip | {
        # pip complains about the machine's configuration, which is not what README says.
        "PIP_QUIET": "3",
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "LC_ALL": "C.UTF-8",
        "COLUMNS": "80",
        "PYTHONPATH": "" if INSTALLS else str(ROOT),
        # What README shows is whole, however busy the machine is, and no disk is waited for.
        "OS_API__SEARCH_DEADLINE": "0",
        "OS_PLACEMENT_DATABASE__SQLITE_SYNCHRONOUS": "false",
    }


def lend_environment(clone: Path) -> None:
    """Give the clone a ``.venv`` of links to this interpreter's environment; its ``pip`` does nothing."""
    lent, own = clone / ".venv", Path(sys.executable).parents[1]
    (lent / "bin").mkdir(parents=True)
    (lent / "lib").symlink_to(own / "lib")
    if (own / "pyvenv.cfg").exists():
        shutil.copy(own / "pyvenv.cfg", lent)
    for program in (own / "bin").iterdir():
        if not program.name.startswith("pip"):
            (lent / "bin" / program.name).symlink_to(program)
    pip = lent / "bin" / "pip"
    pip.write_text("#!/bin/sh\n")
    pip.chmod(0o755)
    shutil.copy(clone / "setup.cfg", lent / MARKER)


@contextmanager
def empty_clone() -> Iterator[CloneShell]:
    """Yield a shell in an empty folder; README's first command clones this repository into it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="placement-readme-") as folder:
        shell = CloneShell(Path(folder), port)
        try:
            yield shell
        finally:
            shell.close()


def alternative_texts() -> dict[str, str]:
    """Return what README says that each of its pictures shows."""
    text = (DOCS / README[0]).read_text()
    found = re.findall(r"\.\. image:: docs/images/([\w-]+)\.png\n +:alt: (.*)\n", text)
    return dict(found)


def draw(browser: Browser, url: str, folder: Path) -> dict[str, str]:
    """Draw the pictures of README, and return the text that each page shows."""
    return {
        name: photograph(browser, f"{url}/-/explorer/{place}", folder / f"{name}.png")
        for name, place in PICTURES.items()
    }


def main() -> None:
    """Write README and its pictures."""
    path = DOCS / README[0]
    with empty_clone() as shell, chromium() as browser:
        path.write_text(rewritten(path.read_text(), shell))
        draw(browser, shell.url, IMAGES)


if __name__ == "__main__":
    main()
