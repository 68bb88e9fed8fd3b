"""The commands of ``openstack`` for what operators ask, on a served process (07 section 8)."""

from collections.abc import Iterator

import pytest

from tests.operations.e2e.openstack_cli import Shell, admin_token_environment
from tests.support import deployment
from tests.support.processes import public_folder
from tests.support.world import new_uuid

pytestmark = pytest.mark.deploy

HOST, NODE, OTHER = (f"5b8784cc-000{n}-4ed4-ba61-1ee63950767e" for n in (1, 2, 3))
SMALL = "7c34be36-0002-44d1-8a7c-39b7a1e6f7c5"
SERVER = "7c34be36-0001-44d1-8a7c-39b7a1e6f7c5"
TRAIT, MARK = "HW_GPU_API_VULKAN", "HW_NIC_SRIOV"

STORY = f"""
openstack resource provider create --uuid {HOST} host-1
openstack resource provider create --uuid {NODE} --parent-provider {HOST} host-1-node
openstack resource provider create --uuid {OTHER} host-2
openstack resource provider inventory set {HOST} --resource VCPU=8
openstack resource provider inventory set {NODE} --resource MEMORY_MB=4096
openstack resource provider inventory set {OTHER} --resource VCPU=4
openstack resource provider allocation set {SERVER} --project-id p --user-id u \
--allocation rp={HOST},VCPU=6 --consumer-type INSTANCE
"""


@pytest.fixture
def shell() -> Iterator[Shell]:
    with public_folder("placement-insight-") as folder:
        environment = deployment.prepare(folder, f"sqlite:///{folder}/placement.sqlite")
        environment["OS_INSIGHT__ENABLED"] = "true"
        environment["OS_INSIGHT__HISTORY_DAYS"] = "30"
        with deployment.builtin(folder, environment) as site:
            shell = Shell(admin_token_environment(site.url))
            shell.environment["COLUMNS"] = "80"
            for line in STORY.strip().splitlines():
                shell.run(line)
            yield shell


def printed(shell: Shell, line: str) -> str:
    text = shell.run(line)
    assert max(map(len, text.splitlines())) <= 80, text
    return text


def test_what_operators_ask(shell: Shell) -> None:
    check_explanations(shell)
    check_capacity(shell)
    check_trees(shell)
    check_drains(shell)
    check_survival(shell)
    check_plans(shell)
    check_claims(shell)
    check_history(shell)


def check_history(shell: Shell) -> None:
    shell.run(f"openstack resource provider allocation delete {SERVER}")
    command = f"openstack placement history show --consumer {SERVER}"
    text = printed(shell, command)
    assert "DELETE /allocations/{consumer_uuid}" in text
    assert "by admin of project admin" in text
    assert "VCPU=6 -> nothing" in text
    newest, *_ = shell.ask(command)["writes"]
    assert newest["before"]["resources"] == {"VCPU": 6}
    by_request = f"openstack placement history show --request-id {newest['request_id']}"
    assert shell.ask(by_request)["writes"] == [newest]
    text = printed(shell, "openstack placement history show --provider host-1")
    assert "it has come" in text
    assert "inventories: none -> VCPU=8" in text
    assert shell.ask(f"{command} --limit 1")["next"]


def check_explanations(shell: Shell) -> None:
    command = f"openstack allocation candidate explain --resource VCPU=3 --required {TRAIT}"
    text = printed(shell, f"{command} --about host-2")
    assert f"without required={TRAIT}: 1" in text
    assert "host-2 cannot take this:" in text
    told = shell.ask(command)
    assert told["candidates"] == {"count": 0, "complete": True}
    assert told["relaxations"] == [
        {
            "drop": {"parameter": "required", "value": TRAIT},
            "candidates": {"count": 1, "complete": True},
        }
    ]
    grouped = "openstack allocation candidate explain --group _A --resource VCPU=9"
    assert shell.ask(grouped)["largest"][0]["would_do"] == 4
    assert "leaving a demand out does not help" in printed(shell, grouped)
    assert "At least one --resource" in shell.fail("openstack allocation candidate explain")
    assert "No such trait" in shell.fail(f"{command}_NOT")
    either = f"{command} --or resources=VCPU:9 --or resources=VCPU:3"
    text = printed(shell, f"{either} --about host-1")
    assert "VCPU: 4 would do, 9 asked" in text
    assert "2: 1 candidates" in text
    assert "host-1 cannot take this:" in text
    assert (shell.ask(either)["chosen"], len(shell.ask(either)["alternatives"])) == (2, 3)


def check_capacity(shell: Shell) -> None:
    command = "openstack allocation candidate capacity --resource VCPU=2"
    assert "host-2: 2" in printed(shell, command)
    told = shell.ask(command)
    assert (told["count"], told["exact"], told["largest"]) == (3, True, {"VCPU": 4})
    either = f"{command} --required {TRAIT} --or resources=VCPU:4 --or resources=VCPU:1"
    text = printed(shell, either)
    assert "1: 1; then VCPU in 2 trees in the way" in text
    told = shell.ask(either)
    assert [each["count"] for each in told["alternatives"]] == [0, 1, 2]
    assert told["count"] == 3


def check_trees(shell: Shell) -> None:
    command = "openstack resource provider tree show"
    text = printed(shell, f"{command} host-1")
    assert "└─ host-1-node" in text
    assert "████████░░" in text
    rows = shell.ask(f"{command} {NODE}")
    assert [(row["provider"], row["used"], row["full"]) for row in rows] == [
        ("host-1", 6, 0.75),
        ("host-1-node", 0, 0.0),
    ]
    assert "No resource provider named nobody" in shell.fail(f"{command} nobody")
    assert "must not be empty" in shell.fail(f"{command} ''")


def check_drains(shell: Shell) -> None:
    text = printed(shell, "openstack resource provider drain check host-1 --resource VCPU=2")
    assert "VCPU=6" in text
    told = shell.ask("openstack resource provider drain check host-2")
    assert told == {"homeless": [], "complete": True}
    shell.run(f"openstack resource provider trait set {OTHER} --trait {MARK}")
    told = shell.ask(f"openstack resource provider drain check host-2 --avoid CUSTOM_X,{MARK}")
    assert told == {"homeless": [], "complete": True, "avoided": 1}
    assert "avoided" in printed(shell, f"openstack placement survival --avoid {MARK}")
    assert "avoided" not in shell.ask("openstack placement survival --avoid ''")
    shell.run(f"openstack resource provider trait delete {OTHER}")


def check_claims(shell: Shell) -> None:
    """Two are held apart and shown; a third finds no place; one is confirmed, and then no hold."""
    claim = "openstack placement claim create --project-id p --user-id u --resource VCPU=1"
    held = shell.ask(f"{claim} --count 2 --apart web --hold 600")
    assert {row["root provider"] for row in held} == {HOST, OTHER}
    assert [row["generation"] for row in held] == [1, 1]
    assert OTHER in printed(shell, "openstack placement group show web")
    group = shell.ask("openstack placement group show web")
    assert (group["rule"], group["at most"], group["kept"]) == ("apart", 1, True)
    refused = shell.fail(f"{claim} --apart web")
    assert "No place was found for consumer" in refused
    assert "left out by the rules of: web" in refused
    assert "- host-1: removed" not in refused
    assert "exists with another rule" in shell.fail(f"{claim} --together web")

    large = "openstack placement claim create --project-id p --user-id u --resource VCPU=1000"
    assert [row["chosen"] for row in shell.ask(f"{large} --or resources=VCPU:1 --hold 600")] == [1]
    assert "Query 1, which would do as well" in shell.fail(f"{large} --or resources=VCPU:2000")

    first, second = (row["consumer"] for row in held)
    assert first in printed(shell, "openstack placement hold list")
    confirm = f"openstack placement claim confirm {first}"
    assert shell.ask(confirm) == [{"consumer": first, "generation": 2}]
    assert "is not held" in shell.fail(confirm)
    holds = shell.ask("openstack placement hold list --project-id p --consumer-group web")
    assert [(row["consumer"], row["expired"]) for row in holds] == [(second, False)]

    printed(shell, f"{claim} --consumer {SERVER[:-1]}9 --together pair --of {HOST}")
    pair = shell.ask("openstack placement group show pair")
    assert (pair["level"], pair["of"], len(pair["members"])) == ("aggregate", [HOST], 1)


def check_survival(shell: Shell) -> None:
    text = printed(shell, "openstack placement survival")
    assert "host-1: 1 of 1 consumers homeless" in text
    assert "NO_CAPACITY VCPU" in text
    told = shell.ask("openstack placement survival --level aggregate")
    assert told == {"places": 0, "tried": 0, "survivable": 0, "complete": True, "lost": []}


def check_plans(shell: Shell) -> None:
    """A small server moves and a large one goes: as a table, and as JSON."""
    shell.run(
        f"openstack resource provider allocation set {SMALL} --project-id p --user-id u "
        f"--allocation rp={HOST},VCPU=1 --consumer-type SMALL"
    )
    create = "openstack placement plan create"
    empty = f"{create} --empty host-1 --move-type SMALL --remove-type INSTANCE --remove-cost 2"
    rows = {row["consumer"]: row for row in shell.ask(empty)}
    assert rows.keys() == {SMALL, SERVER}
    assert (rows[SMALL]["from"], rows[SMALL]["to"]) == ("host-1", "host-2")
    assert (rows[SERVER]["from"], rows[SERVER]["to"]) == ("host-1", "(removed)")
    assert rows[SMALL]["allocations"] == {OTHER: {"resources": {"VCPU": 1}}}
    shown = printed(shell, f"{empty} --except {new_uuid()} --most 9 --move-cost 0.5")
    assert SMALL in shown
    assert shell.ask(f"{create} --place resources=VCPU:2 --times 2 --hold 60") == []
    assert shell.ask(f"{create} --empty-any 1 --level tree --of host-2 --of host-1") == []
    assert "CAPACITY VCPU" in shell.fail(f"{create} --place resources=VCPU:99 --remove-project p")
    assert f"Cannot leave:\n{SERVER}" in shell.fail(f"{create} --empty host-1")
    for line in ("--keep web --times 2", "--empty host-1 --of host-2", "--keep web --empty host-1"):
        assert "--" in shell.fail(f"{create} {line}")
    assert "must not be empty" in shell.fail(f"{create} --empty ''")
    assert "is no name of a trait" in shell.fail(f"{create} --empty host-1 --avoid host-2")
    shell.run(f"openstack resource provider allocation delete {SMALL}")
    claim = "openstack placement claim create --project-id p --user-id u --resource VCPU=1"
    (claimed,) = shell.ask(f"{claim} --apart kept")
    assert shell.ask(f"{create} --keep kept") == []
    shell.run(f"openstack resource provider allocation delete {claimed['consumer']}")
