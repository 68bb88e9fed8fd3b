"""An image made of a Containerfile without an engine: in a chroot, one instruction after the other.

Commands run in it as an engine would run them with what the compose file asks for: the user of the image, no
capabilities, everything read-only but what is mounted. They share the network of this machine.
"""

import io
import json
import re
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from dockerfile_parse import DockerfileParser

from tests.support import debian
from tests.support.processes import ENDS_S

# What an engine unpacks in place of our fresh Debian.
BASE = "docker.io/library/debian:bookworm-slim"


@dataclass
class Image:
    """A root and the settings with which commands run in it."""

    root: Path
    environment: dict[str, str] = field(default_factory=dict)
    workdir: str = "/"
    user: str = "0:0"
    command: list[str] = field(default_factory=list)
    health: list[str] = field(default_factory=list)
    ports: list[str] = field(default_factory=list)

    def inside(self, path: str) -> Path:
        """Return where a path of the image is on this machine."""
        return self.root / PurePosixPath("/", self.workdir, path).relative_to("/")

    def words(
        self,
        command: list[str],
        environment: Mapping[str, str],
        volumes: Mapping[str, Path],
    ) -> list[str]:
        """Return the words that run a command in it.

        :param volumes: a file or directory of this machine for each path of the image, read-only.
        """
        mounts = [("--rbind", self.root, self.root), ("--bind", Path("/dev"), self.root / "dev")]
        for path, source in volumes.items():
            place = self.inside(path)
            if source.is_dir():
                place.mkdir(parents=True, exist_ok=True)
            else:
                place.touch()
            mounts.append(("--bind", source, place))
        script = " && ".join(
            [
                *(shlex.join(["mount", how, str(of), str(at)]) for how, of, at in mounts),
                shlex.join(["mount", "-t", "proc", "proc", str(self.root / "proc")]),
                *(
                    shlex.join(["mount", "-o", "remount,bind,ro", str(at)])
                    for at in [self.root, *map(self.inside, volumes)]
                ),
                'exec "$@"',
            ]
        )
        settings = {**self.environment, **environment}
        user, group = self.user.split(":")
        return [
            *("unshare", "--mount", "sh", "-c", script, "image", "chroot", str(self.root)),
            *("setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups"),
            *("--no-new-privs", "--inh-caps=-all", "--bounding-set=-all"),
            *("env", "-i", f"--chdir={self.workdir}"),
            *(f"{name}={value}" for name, value in settings.items()),
            *command,
        ]


def build(containerfile: str, context: Path, base: Path, folder: Path) -> Image:
    """Run the instructions of a Containerfile; return the image of its last stage.

    :param base: a fresh Debian, to be copied for each stage.
    """
    stages: dict[str, Image] = {}
    image = Image(base)
    folder.mkdir()
    for step in DockerfileParser(fileobj=io.BytesIO(containerfile.encode())).structure:
        name, value = step["instruction"], step["value"]
        if name == "COMMENT":
            continue
        if name == "FROM":
            of, _, stage = value.partition(" AS ")
            assert of == BASE
            image = stages[stage] = Image(folder / (stage or "image"))
            debian.copy_root(base, image.root)
        elif name == "COPY":
            _copy(image, shlex.split(value), context, stages)
        elif name == "RUN":
            _run(image, value)
        else:
            _set(image, name, value)
    return image


def _run(image: Image, command: str) -> None:
    """Run a line of sh as root: a user is set after everything is installed."""
    assert image.user == "0:0"
    done = debian.in_root(image.root, f"cd {image.workdir} && {command}", **image.environment)
    assert done.returncode == 0, command + done.stdout[-3000:] + done.stderr[-3000:]


def _copy(image: Image, words: list[str], context: Path, stages: Mapping[str, Image]) -> None:
    """Copy files into a directory or to a name, and the contents of a directory."""
    origin = context
    if words[0].startswith("--from="):
        origin = stages[words.pop(0).removeprefix("--from=")].root
    *sources, target = words
    place = image.inside(target)
    for each in sources:
        source = origin / each.lstrip("/")
        if source.is_dir():
            place.mkdir(parents=True, exist_ok=True)
            copied = [f"{source}/.", place]
        else:
            (place if target.endswith("/") else place.parent).mkdir(parents=True, exist_ok=True)
            copied = [source, place]
        subprocess.run(["cp", "-a", "--no-preserve=ownership", *copied], check=True, timeout=5 * ENDS_S)


def _set(image: Image, name: str, value: str) -> None:
    """Note what holds for the commands that run in the image."""
    match name:
        case "ENV":
            image.environment.update(word.split("=", 1) for word in shlex.split(value))
        case "WORKDIR":
            image.workdir = value
            image.inside(value).mkdir(parents=True, exist_ok=True)
        case "USER":
            image.user = value
        case "EXPOSE":
            image.ports += value.split()
        case "CMD":
            image.command = json.loads(value)
        case "HEALTHCHECK":
            image.health = json.loads(re.sub(r"^.*?\bCMD ", "", value))
        case _:
            raise AssertionError(f"{name} is not known here")
