"""The commands of osc-placement against the service.

With PLACEMENT_TRANSCRIPT=docs/openstack-cli.txt the session is written where the documentation shows it.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.operations.e2e.openstack_cli import Shell, admin_token_environment
from tests.support import deployment
from tests.support.deployment import Site
from tests.support.processes import public_folder

pytestmark = pytest.mark.deploy

HOST = "5b8784cc-0001-4ed4-ba61-1ee63950767e"
GPU = "5b8784cc-0002-4ed4-ba61-1ee63950767e"
SERVER = "7c34be36-0001-44d1-8a7c-39b7a1e6f7c5"
RACK = "0f5c6c3c-0001-4d3f-9d8a-0f2f1d7d8a11"
PROJECT, USER = "project-1", "user-1"

STORY = f"""
openstack resource class create CUSTOM_PGPU
openstack resource provider create --uuid {HOST} host1
openstack resource provider create --uuid {GPU} --parent-provider {HOST} host1_gpu0
openstack resource provider inventory set {HOST} --resource VCPU=16 \
--resource VCPU:allocation_ratio=4.0 --resource MEMORY_MB=65536 --resource MEMORY_MB:reserved=2048
openstack resource provider inventory set {GPU} --resource CUSTOM_PGPU=2
openstack trait create CUSTOM_RACK_7
openstack resource provider trait set --trait CUSTOM_RACK_7 --trait HW_CPU_X86_AVX2 {HOST}
openstack resource provider aggregate set --aggregate {RACK} --generation 2 {HOST}
openstack resource provider list --resource VCPU=4 --required CUSTOM_RACK_7
openstack allocation candidate list --resource VCPU=4 --resource MEMORY_MB=8192 \
--resource CUSTOM_PGPU=1
openstack resource provider allocation set {SERVER} --project-id {PROJECT} --user-id {USER} \
--allocation rp={HOST},VCPU=4,MEMORY_MB=8192 --allocation rp={GPU},CUSTOM_PGPU=1 \
--consumer-type INSTANCE
openstack resource provider usage show {HOST}
openstack resource provider show {HOST} --allocations
openstack resource usage show {PROJECT}
openstack resource provider inventory list {HOST}
"""

CLEAN_UP = f"""
openstack resource provider allocation delete {SERVER}
openstack resource provider delete {GPU}
openstack resource provider delete {HOST}
openstack trait delete CUSTOM_RACK_7
openstack resource class delete CUSTOM_PGPU
"""


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line]


@pytest.fixture
def site() -> Iterator[Site]:
    with public_folder("placement-cli-") as folder:
        environment = deployment.prepare(folder, f"sqlite:///{folder}/placement.sqlite")
        with deployment.builtin(folder, environment) as site:
            yield site


@pytest.fixture
def shell(site: Site) -> Shell:
    return Shell(admin_token_environment(site.url))


def test_the_life_of_a_host(shell: Shell) -> None:
    for line in lines(STORY):
        shell.run(line)
    check_the_host(shell)
    check_refusals(shell)
    for line in lines(CLEAN_UP):
        shell.run(line)
    assert shell.ask("openstack resource provider list") == []
    if path := os.environ.get("PLACEMENT_TRANSCRIPT"):
        Path(path).write_text("\n".join(shell.transcript))


def check_the_host(shell: Shell) -> None:
    """What the commands wrote is what the commands read."""
    host = shell.ask(f"openstack resource provider show {HOST} --allocations")
    assert host["allocations"][SERVER]["resources"] == {"VCPU": 4, "MEMORY_MB": 8192}
    (gpu,) = shell.ask(f"openstack resource provider list --in-tree {HOST} --name host1_gpu0")
    assert (gpu["root_provider_uuid"], gpu["parent_provider_uuid"]) == (HOST, HOST)
    candidates = shell.ask("openstack allocation candidate list --resource VCPU=4")
    assert [row["resource provider"] for row in candidates] == [HOST]
    traits = set(candidates[0]["traits"].split(","))
    assert traits == {"HW_CPU_X86_AVX2", "CUSTOM_RACK_7"}
    (usage,) = shell.ask(f"openstack resource usage show {PROJECT}")
    assert usage["resource_class"] == "INSTANCE"
    amounts = {"VCPU": 4, "MEMORY_MB": 8192, "CUSTOM_PGPU": 1}
    assert usage["usage"] == {**amounts, "consumer_count": 1}
    aggregates = shell.ask(f"openstack resource provider aggregate list {HOST}")
    assert aggregates == [{"uuid": RACK}]


def check_refusals(shell: Shell) -> None:
    """Refusals come with the service's words and a failing exit code."""
    assert "Unable to delete" in shell.fail(f"openstack resource provider delete {GPU}")
    too_much = f"--allocation rp={HOST},VCPU=100 --project-id {PROJECT} --user-id {USER}"
    consumer = SERVER.replace("-0001-", "-0002-")
    refused = shell.fail(
        f"openstack resource provider allocation set {consumer} {too_much} --consumer-type INSTANCE"
    )
    assert "Unable to allocate inventory" in refused
    assert "No resource provider" in shell.fail(f"openstack resource provider show {RACK}")


@pytest.mark.parametrize("version", ["1.0", "1.29"])
def test_older_clients_are_understood(site: Site, version: str) -> None:
    shell = Shell({**admin_token_environment(site.url), "OS_PLACEMENT_API_VERSION": version})
    shell.run("openstack resource provider create older")
    (made,) = shell.ask("openstack resource provider list")
    assert (made["name"], made["generation"]) == ("older", 0)
