"""placement-tree: export, diff and apply, over HTTP and offline."""

import errno
import io
import os
import pty
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from keystoneauth1 import adapter
from oslo_config import cfg

from placement import deploy
from placement.client import drivers
from placement.client.drivers.split import read_layout
from placement.client.migrate import migrate_compute_inventory
from placement.client.report import ReportClient
from placement.client.tree_file import parse
from placement.client.tree_plan import apply_file
from placement.cmd import tree as command
from placement.direct import PlacementDirect
from placement.printable import escape_unprintable
from tests.client.conftest import client as client
from tests.client.conftest import configured, http_adapter, serving, serving_trees
from tests.client.conftest import connection as connection
from tests.client.conftest import direct as direct
from tests.client.conftest import http as http
from tests.client.conftest import recorder as recorder
from tests.client.world import Recorder, World
from tests.support.commands import Forked
from tests.support.databases import synced
from tests.support.service import configure
from tests.support.world import new_uuid

EXAMPLES = Path(__file__).parents[2] / "examples" / "provider-trees"

Run = Callable[..., tuple[Any, str, str]]
"""Takes the arguments; returns the exit status, and what was said on both outputs."""

Host = tuple[str, str, str, str]
"""Name, root, child, consumer."""

HOST1 = "6f7a0c54-1111-4222-8333-944445555666"


conf = pytest.fixture(scope="module")(configured)
url = pytest.fixture(scope="module")(serving_trees)


@pytest.fixture(params=["http", "direct"])
def how(request: pytest.FixtureRequest, conf: cfg.ConfigOpts) -> list[str]:
    """The options that say where the service is."""
    if request.param == "direct":
        return ["--direct", "--config-file", conf.config_file[0]]
    url = request.getfixturevalue("url")
    return ["--os-auth-type", "admin_token", "--os-endpoint", url, "--os-token", "admin"]


@pytest.fixture
def world(http: adapter.Adapter) -> World:
    """Somebody else who reads and writes, over HTTP in any case."""
    return World(http)


@pytest.fixture
def run(how: list[str], capsys: pytest.CaptureFixture[str]) -> Run:
    """The command, with the options of ``how``."""

    def run(*arguments: object) -> tuple[Any, str, str]:
        try:
            status: Any = command.main([*how, *(str(one) for one in arguments)])
        except SystemExit as ended:
            status = ended.code
        said = capsys.readouterr()
        return status, said.out, said.err

    return run


@pytest.fixture
def host(world: World) -> Host:
    """A host with VGPU in use on the root, and a child: name, root, child, consumer."""
    root = new_uuid()
    name = f"host {root}"
    stock = {"VCPU": {"total": 8, "allocation_ratio": 1.5}, "VGPU": 4}
    traits = ["CUSTOM_A", "HW_CPU_X86_AVX"]
    world.provider(name, None, stock, traits, [new_uuid()], key=root)
    child = world.provider(f"{name}_0", root, {"CUSTOM_X": 3})
    return name, root, child, world.claim({root: {"VCPU": 1, "VGPU": 2}})


HEAD = "placement_tree: 1\nproviders:\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a test writes its file."""
    return tmp_path / "tree.yaml"


def moved(name: str) -> str:
    """A file that gives the VGPU of the host to a new child."""
    return f"""{HEAD}  - name: {name}
    inventories:
      VCPU: {{total: 9}}
    children:
      - name: {name}_gpu
        inventories:
          VGPU: {{total: 4}}
        traits: [CUSTOM_GPU]
        takes_over:
          - {{from: {name}, class: VGPU}}
"""


def test_an_export_applied_changes_nothing(run: Run, host: Host, world: World, path: Path) -> None:
    name, root, child, _ = host
    before = world.state(root, child)
    assert run("export", name, "-o", path) == (0, "", "")
    assert run("export", child)[1] == path.read_text()
    assert run("diff", path) == (0, "Nothing to change.\n", "")
    assert run("apply", path) == (0, "Nothing to change.\n", "")
    assert world.state(root, child) == before


def test_everything_exported_and_applied_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a service of its own: what other tests leave behind would take its time."""
    with (
        synced("sqlite") as database,
        serving(deploy.loadapp(configure(), database=database)) as url,
    ):
        adapter = http_adapter(url)
        world = World(adapter)
        shared = new_uuid()
        keys = [world.provider(f"host{n}", None, {"VCPU": n + 1}) for n in range(5)]
        keys += [world.provider(f"gpu{n}", keys[n], traits=["CUSTOM_GPU"]) for n in range(3)]
        keys.append(
            world.provider("nfs", None, {"DISK_GB": 9}, ["MISC_SHARES_VIA_AGGREGATE"], [shared])
        )
        world.replace(keys[0], "aggregates", [shared])
        before, path = world.state(*keys), tmp_path / "all.yaml"
        how = ["--os-auth-type", "admin_token", "--os-endpoint", url, "--os-token", "admin"]
        assert command.main([*how, "export", "--all", "-o", str(path)]) == 0
        assert len(parse(path.read_text(), "all.yaml").providers) == len(keys)
        assert command.main([*how, "apply", str(path)]) == 0
        assert capsys.readouterr().out == "Nothing to change.\n"
        assert world.state(*keys) == before
        adapter.session.session.close()


def test_a_reshape_from_a_file(
    how: list[str], run: Run, host: Host, world: World, path: Path
) -> None:
    name, root, child, consumer = host
    path.write_text(moved(name))
    before = world.state(root, child)

    status, out, _ = run("diff", path)
    assert status == 1
    assert "~ VCPU: total 8 -> 9\n" in out
    assert "- VGPU: total 4" in out
    assert f"+ provider {name}_gpu" in out
    assert "+ trait CUSTOM_GPU" in out
    assert f"> consumer {consumer}: 2 VGPU from {name} to {name}_gpu\n" in out

    status, out, err = run("apply", path)
    assert status == 1
    assert "--allow-reshape" in err
    assert world.state(root, child) == before

    # The plain admin of the trial authentication may not reshape, and is told so.
    if "--direct" not in how:
        status, _, err = run("apply", path, "--allow-reshape")
        assert status == 1 and "403" in err
        assert world.state(root, child) == before
        assert world.below(root).keys() == {f"{name}_0"}
        return
    assert run("apply", path, "--allow-reshape")[0] == 0
    gpu = world.below(root)[f"{name}_gpu"]
    assert world.used(consumer) == {root: {"VCPU": 1}, gpu: {"VGPU": 2}}
    assert world.totals(root) == {"VCPU": 9}
    shown = world.get(f"/resource_providers/{root}/inventories")["inventories"]
    assert shown["VCPU"]["allocation_ratio"] == 1.5, "what the file does not say stays"
    assert world.exists(child), "unlisted providers are kept"

    after = world.state(root, child, gpu)
    assert run("apply", path, "--allow-reshape") == (0, "Nothing to change.\n", "")
    assert run("diff", path)[0] == 0
    assert world.state(root, child, gpu) == after


def test_a_new_tree_is_created(run: Run, world: World, path: Path) -> None:
    name = f"new {new_uuid()}"
    path.write_text(
        f"{HEAD}  - name: {name}\n    inventories: {{VCPU: {{total: 2}}}}\n"
        f"  - name: {name} below\n    parent: {name}\n    traits: [CUSTOM_Z]\n"
    )
    status, out, _ = run("apply", path)
    assert status == 0 and f"+ provider {name} below" in out
    (root,) = world.get(f"/resource_providers?name={name}")["resource_providers"]
    assert world.totals(root["uuid"]) == {"VCPU": 2}
    assert run("apply", path)[1] == "Nothing to change.\n"


@pytest.mark.parametrize("what", ["class", "provider", "no room"])
def test_inventory_in_use_is_not_destroyed(
    run: Run, host: Host, world: World, path: Path, what: str
) -> None:
    name, root, child, consumer = host
    text = f"{HEAD}  - name: {name}\n    inventories: {{VCPU: {{total: 8}}}}\n"
    if what == "provider":
        world.claim({child: {"CUSTOM_X": 1}})
        text = f"placement_tree: 1\nunlisted: remove\nproviders:\n  - name: {name}\n"
    if what == "no room":
        text = moved(name).replace("{total: 4}", "{total: 1}")
    path.write_text(text)
    before = world.state(root, child)
    status, out, _ = run("diff", path)
    assert status == 1 and "\n! " in out
    status, out, err = run("apply", path, "--allow-reshape")
    assert status == 1 and out == ""
    assert "Nothing was changed" in err
    assert ("takes_over" in err) or (consumer in err)
    assert world.state(root, child) == before


def test_what_is_unlisted_is_removed_if_the_file_says_so(
    run: Run, host: Host, world: World, path: Path
) -> None:
    name, root, child, _ = host
    path.write_text(f"placement_tree: 1\nunlisted: remove\nproviders:\n  - name: {name}\n")
    assert f"- provider {name}_0 ({child}) under {name}" in run("diff", path)[1]
    assert run("apply", path)[0] == 0
    assert not world.exists(child) and world.exists(root)


BAD = {
    "unknown class": ("    inventories: {{BANANAS: {{total: 1}}}}\n", 4, "no such resource class"),
    "unknown trait": ("    traits:\n      - HW_BANANAS\n", 5, "no such trait: HW_BANANAS"),
    "capacity": ("    inventories:\n      VCPU: {{total: 1, reserved: 2}}\n", 5, "more than total"),
    "rename": ("    uuid: {root}\n", 3, "renaming is not supported"),
    "other uuid": ("    uuid: 11111111-1111-4111-8111-111111111111\n", 3, "belongs to provider"),
    "re-parenting": ("  - name: {child}\n", 4, "is not a root in the service"),
    "foreign name": ("    children:\n      - name: {other}\n", 5, "in another tree"),
    "cycle": ("    parent: {name}\n", 3, "its own ancestor"),
    "duplicate": ("  - name: {name}\n", 4, "is in line 3 already"),
    "keeps": (
        "    inventories: {{VCPU: {{total: 8}}, VGPU: {{total: 4}}}}\n    children:\n"
        "      - name: {name}_gpu\n        inventories: {{VGPU: {{total: 4}}}}\n"
        "        takes_over:\n          - {{from: {name}, class: VGPU}}\n",
        9,
        "keeps its VGPU",
    ),
}


def test_bad_files_are_refused_with_the_line(
    run: Run, host: Host, world: World, path: Path
) -> None:
    name, root, child, _ = host
    other, _ = world.node()
    before = world.state(root, child)
    for fault, (text, line, words) in BAD.items():
        text = text.format(name=name, root=root, child=f"{name}_0", other=other)
        shown = f"x{name}" if fault == "rename" else name
        path.write_text(f"{HEAD}  - name: {shown}\n{text}")
        for verb in ("diff", "apply"):
            status, out, err = run(verb, path)
            assert (status, out) == (2, ""), fault
            assert f"tree.yaml:{line}: " in err and words in err, fault
    assert world.state(root, child) == before


def test_inventories_of_several_providers_change_together_or_not(
    run: Run, how: list[str], host: Host, world: World, path: Path
) -> None:
    """All or nothing: the second writer comes between, and the whole starts over."""
    name, root, child, _ = host
    path.write_text(
        f"{HEAD}  - name: {name}\n"
        "    inventories: {VCPU: {total: 10}, VGPU: {total: 5}}\n    children:\n"
        f"      - name: {name}_0\n        inventories: {{CUSTOM_X: {{total: 7}}}}\n"
    )
    before = world.state(root, child)
    if "--direct" not in how:
        status, _, err = run("apply", path)
        assert status == 1 and "403" in err
        assert world.state(root, child) == before
        assert run("apply", path, "--one-by-one")[0] == 0
    else:
        assert run("apply", path)[0] == 0
    assert world.totals(root) == {"VCPU": 10, "VGPU": 5}
    assert world.totals(child) == {"CUSTOM_X": 7}


@pytest.mark.parametrize(
    "arguments",
    [
        ("export",),
        ("export", "--all", "x"),
        ("export", "nowhere"),
        ("diff",),
        ("apply", "a", "b"),
        ("apply", "/nonexistent/tree.yaml"),
    ],
)
def test_bad_usage(run: Run, arguments: tuple[str, ...]) -> None:
    status, out, err = run(*arguments)
    assert (status, out) == (2, "")
    assert err.splitlines()[-1].startswith("placement-tree")


@pytest.mark.parametrize(
    ("token", "path", "advice"),
    [
        ("nobody", "", "role admin or service"),
        ("admin", "/placement/v1", "URL of a Placement service"),
    ],
)
def test_a_refusal_says_what_to_look_at(
    url: str, capsys: pytest.CaptureFixture[str], token: str, path: str, advice: str
) -> None:
    how = ["--os-auth-type", "admin_token", "--os-endpoint", url + path, "--os-token", token]
    assert command.main([*how, "export", "--all"]) == 2
    assert advice in capsys.readouterr().err


def test_a_service_that_is_not_there(capsys: pytest.CaptureFixture[str], path: Path) -> None:
    path.write_text(f"{HEAD}  - name: a\n")
    how = ["--os-auth-type", "none", "--os-endpoint", "http://127.0.0.1:1"]
    assert command.main([*how, "apply", str(path)]) == 2
    assert "run the command again" in capsys.readouterr().err
    assert command.main([*how, "diff", str(path)]) == 2
    assert "written" not in capsys.readouterr().err


def test_a_file_that_is_not_there_is_named(run: Run) -> None:
    assert run("diff", "/nowhere/tree.yaml")[2] == (
        "placement-tree: /nowhere/tree.yaml: No such file or directory\n"
    )


@pytest.mark.parametrize(
    ("file", "why"),
    [
        ("{}", "Is a directory"),
        ("{}/nowhere/tree.yaml", "No such file or directory"),
        ("/dev/null/tree.yaml", "Not a directory"),
    ],
)
def test_a_file_that_cannot_be_written_is_named_as_it_was_given(
    run: Run, host: Host, tmp_path: Path, file: str, why: str
) -> None:
    given = file.format(tmp_path)
    assert run("export", host[0], "-o", given) == (2, "", f"placement-tree: {given}: {why}\n")
    assert not list(tmp_path.parent.glob(f".{tmp_path.name}.*"))


@pytest.mark.parametrize("answer", ['{"a": 1}', '{"resource_providers": [{}]}', "[1]", "<html>"])
def test_a_service_that_is_not_placement_is_named(
    capsys: pytest.CaptureFixture[str], path: Path, answer: str
) -> None:
    """With the request, in one line: whichever document is read first."""
    path.write_text(f"{HEAD}  - name: a\n    uuid: {HOST1}\n")

    def other_program(_environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [("Content-Type", "application/json")])
        return [answer.encode()]

    with serving(other_program) as url:
        how = ["--os-auth-type", "admin_token", "--os-endpoint", url, "--os-token", "admin"]
        for words in (["export", "--all"], ["export", "a"], ["diff", str(path)], ["apply", str(path)]):
            assert command.main([*how, *words]) in (1, 2)
            (line,) = capsys.readouterr().err.splitlines()
            assert f"what answers GET {url}/resource_providers" in line
            assert "is not Placement's document: " in line


class LostOutput(io.StringIO):
    """An output that cannot be written."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def write(self, _text: str) -> int:
        raise OSError(self.number, os.strerror(self.number))


@pytest.mark.parametrize("number", [errno.EPIPE, errno.ENOSPC])
def test_an_output_that_is_lost_is_left_to_the_entry_point(
    how: list[str], host: Host, path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """For all programs it says what a shell expects: 141 for a closed pipe (test_cmd_programs.py)."""
    path.write_text(f"{HEAD}  - name: {host[0]}\n")
    monkeypatch.setattr(sys, "stdout", LostOutput(number))
    for words in (["export", host[0]], ["diff", str(path)]):
        with pytest.raises(OSError, match=os.strerror(number)):
            command.main([*how, *words])


def test_a_program_without_an_output_does_what_it_does(
    how: list[str], host: Host, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_text(f"{HEAD}  - name: {host[0]}\n")
    monkeypatch.setattr(sys, "stdout", None)
    for words in (["export", host[0]], ["diff", str(path)], ["apply", str(path)]):
        assert command.main([*how, *words]) == 0


def test_a_cloud_without_the_sdk_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "openstack", None)
    assert command.main(["--os-cloud", "mycloud", "export", "--all"]) == 2
    assert "pip install openstacksdk" in capsys.readouterr().err


def test_a_database_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "placement.conf"
    path.write_text("[placement_database]\nconnection = sqlite:////nowhere/x\n")
    for named, words in ((path, "Check the path of the file"), ("/nowhere", "/nowhere")):
        arguments = ["--direct", "--config-file", str(named), "export", "--all"]
        # This process has its database already.
        done = Forked("placement-tree", *arguments, environment=os.environ).wait()
        assert done.returncode == 2
        assert words in done.stderr
        assert "Error" not in done.stderr


def test_a_file_from_standard_input(run: Run, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    content = f"placement_tree: 1\nproviders: [{{name: {host[0]}}}]\n".encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert run("apply", "-")[:2] == (0, "Nothing to change.\n")


def test_a_file_that_is_not_utf_8_is_named(run: Run, path: Path) -> None:
    path.write_bytes("placement_tree: 1\nproviders: [{name: Müller}]\n".encode("latin-1"))
    code, _, told = run("apply", str(path))
    assert (code, told.strip()) == (2, f"placement-tree: {path}:2: this is not UTF-8")


def test_colour_on_a_terminal_only(
    host: Host,
    path: Path,
    conf: cfg.ConfigOpts,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name, *_ = host
    path.write_text(moved(name))
    diff = ["--direct", "--config-file", conf.config_file[0], "diff", str(path)]
    command.main(diff)
    assert "\x1b[" not in capsys.readouterr().out
    command.main([*diff, "--color", "always"])
    assert "\x1b[32m+ provider" in capsys.readouterr().out

    leader, follower = pty.openpty()
    monkeypatch.delenv("NO_COLOR", raising=False)
    with os.fdopen(follower, "w") as terminal, monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", terminal)
        command.main(diff)
        terminal.flush()
        shown = ""
        # What is written arrives in parts.
        while "\x1b[32m+ provider" not in shown:
            shown += os.read(leader, 65536).decode()
    os.close(leader)


def test_the_examples_are_what_the_guide_says(
    conf: cfg.ConfigOpts, capsys: pytest.CaptureFixture[str]
) -> None:
    """vgpu-before, then vgpu-after with a consumer in place; offline, on a node of its own."""
    how = ["--direct", "--config-file", conf.config_file[0]]
    assert command.main([*how, "apply", str(EXAMPLES / "vgpu-before.yaml")]) == 0
    with PlacementDirect(conf) as direct:
        world = World(direct)
        consumer = world.claim({HOST1: {"VCPU": 1, "VGPU": 3}})
        apply = [*how, "apply", "--allow-reshape", str(EXAMPLES / "vgpu-after.yaml")]
        assert command.main(apply) == 0
        (gpu,) = set(world.used(consumer)) - {HOST1}
        assert world.totals(gpu) == {"VGPU": 4}
        layout = str(EXAMPLES / "vgpu-layout.yaml")
        conf.set_override("layout_file", layout, group="tree_driver")
        driver = drivers.load("placement.client.drivers.split:vgpu_from_conf", conf)
        conf.clear_override("layout_file", group="tree_driver")
        done = migrate_compute_inventory(None, ReportClient(direct), driver)
        assert done == {"host1": "unchanged"}
        world.release(consumer)
    assert read_layout(EXAMPLES / "numa-layout.yaml")["host1"].uuid == HOST1


def test_names_cannot_steer_the_terminal() -> None:
    assert escape_unprintable("a\x1b[2Jb\n\u202e") == "a\\x1b[2Jb\\n\\u202e"
    assert escape_unprintable("schön") == "schön"


def test_a_second_writer_makes_apply_start_over(
    client: ReportClient, recorder: Recorder, world: World
) -> None:
    name, root = world.node(VCPU=8, VGPU=4)
    late = new_uuid()
    recorder.before("post", "/reshaper", lambda: world.claim({root: {"VGPU": 1}}, late))
    plan = apply_file(client, None, parse(moved(name), "tree.yaml"), allow_reshape=True)
    assert [move.consumer_uuid for move in plan.moves] == [late]
    assert root not in world.used(late)


def test_connection_options_may_stand_behind_the_command() -> None:
    """As they could before the commands had options of their own."""
    words = "export host1 --os-auth-type admin_token --os-token t --os-endpoint http://h -o file"
    arguments = command._parse_words(words.split())
    assert (arguments.command, arguments.subject, arguments.output) == ("export", ["host1"], "file")
    assert (arguments.os_auth_type, arguments.os_token) == ("admin_token", "t")


def test_the_time_of_a_request_is_not_that_of_a_reshape() -> None:
    """Both were called --timeout: the word set neither, and each request might take a minute."""
    for words, of_request in (("", 600), (" --timeout 5", 5)):
        arguments = command._parse_words(f"apply trees.yaml --reshape-timeout 7{words}".split())
        assert (arguments.timeout, arguments.reshape_timeout) == (of_request, 7.0)
