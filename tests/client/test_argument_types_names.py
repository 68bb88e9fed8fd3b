"""An empty name selects nothing: commands and clients refuse it before they ask anybody."""

import argparse
import configparser
import importlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from osc_lib import exceptions

from placement.client.api import PlacementAPI
from placement.client.claims import ClaimsClient
from placement.client.exceptions import EmptyName, ResourceProviderRetrievalFailed
from placement.client.history import HistoryClient
from placement.client.nova import Nova
from placement.client.osc import insight
from placement.client.plans import PlansClient
from placement.client.provider_names import ProviderNames
from placement.client.report import ReportClient
from placement.cmd import audit, compare, migrate_inventory, tree

ROOT = Path(__file__).parents[2]

LIFTS_A_RULE = "--avoid"
"""The only option whose empty value means something: no trait."""


def commands_of_openstack() -> dict[str, Any]:
    """Return the classes of all commands that the package brings, by the name of their entry point."""
    read = configparser.ConfigParser()
    read.read(ROOT / "setup.cfg")
    lines = read["options.entry_points"]["openstack.placement.v1"].strip().splitlines()
    found = {}
    for line in lines:
        name, _, place = (part.strip() for part in line.partition("="))
        module, _, kind = place.partition(":")
        found[name] = getattr(importlib.import_module(module), kind)
    return found


def parser_of(kind: Any) -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = kind(None, None).get_parser("x")
    return made


def list_actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for under in action.choices.values():
                yield from list_actions(under)
        else:
            yield action


def own_actions(kind: Any) -> list[argparse.Action]:
    """Return the arguments of a command without those that every command of its base has."""
    base: Any = kind.__mro__[1]
    inherited = {each.dest for each in base.get_parser(kind(None, None), "x")._actions}
    return [each for each in list_actions(parser_of(kind)) if each.dest not in inherited]


ACTIONS = {
    **{name: partial(own_actions, kind) for name, kind in commands_of_openstack().items()},
    "placement-compare": lambda: list(list_actions(compare._make_parser())),
    "placement-tree": lambda: list(list_actions(tree._make_parser())),
    "placement-migrate-compute-inventory": lambda: list(
        list_actions(migrate_inventory._make_parser())
    ),
    "audit": lambda: list(
        list_actions(audit.add_parser(argparse.ArgumentParser().add_subparsers()))
    ),
}


@pytest.mark.parametrize("given", ["", " ", "\t\n"])
@pytest.mark.parametrize("command", ACTIONS)
def test_no_argument_of_a_command_takes_an_empty_value(command: str, given: str) -> None:
    """Whatever it names, or counts; a new argument of a new command too."""
    found = [each for each in ACTIONS[command]() if each.nargs != 0 and not each.choices]
    for each in found:
        if LIFTS_A_RULE in each.option_strings and not given:
            continue
        assert callable(each.type), (each.option_strings or each.dest, "has no type")
        with pytest.raises(argparse.ArgumentTypeError, match=r"must|is no"):
            each.type(given)
    assert found


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("placement_plan_run", ["--empty", ""]),
        ("placement_plan_create", ["--empty", " "]),
        ("placement_plan_create", ["--empty-any", "1", "--of", ""]),
        ("resource_provider_drain_check", [""]),
        ("resource_provider_tree_show", [""]),
        ("placement_history_show", ["--consumer", ""]),
        ("placement_history_show", ["--server", ""]),
        ("placement_claim_confirm", ["7c34be36-0002-44d1-8a7c-39b7a1e6f7c5", ""]),
        ("allocation_candidate_explain", ["--resource", "VCPU=1", "--about", ""]),
        ("allocation_candidate_explain", ["--resource", "VCPU=1", "--required", ""]),
    ],
)
def test_an_empty_value_is_exit_code_2(
    command: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parser_of(commands_of_openstack()[command]).parse_args(words)
    assert ended.value.code == 2
    assert "must not be empty" in capsys.readouterr().err


class Answers:
    """The client of osc-placement: gives one answer, and notes what was asked."""

    api_version = "1.39"

    def __init__(self, *names: str) -> None:
        self.providers = [{"uuid": f"uuid of {name}", "name": name} for name in names]
        self.asked: list[str] = []

    def request(self, _method: str, url: str, **_more: Any) -> Any:
        self.asked.append(url)
        return SimpleNamespace(json=lambda: {"resource_providers": self.providers})

    def find(self, given: str) -> str:
        app = SimpleNamespace(client_manager=SimpleNamespace(placement=self))
        return insight.provider_uuid(app, given)


def test_a_name_selects_the_one_provider_that_has_it() -> None:
    assert Answers("host-1").find("host-1") == "uuid of host-1"


@pytest.mark.parametrize("names", [(), ("host-1", "host-2")])
def test_a_name_of_none_or_of_several_selects_nothing(names: tuple[str, ...]) -> None:
    with pytest.raises(exceptions.CommandError, match="resource provider"):
        Answers(*names).find("host-1")


@pytest.mark.parametrize("given", ["", "  "])
def test_an_empty_name_is_not_asked_for(given: str) -> None:
    service = Answers("host-1")
    with pytest.raises(exceptions.CommandError, match="empty name or uuid"):
        service.find(given)
    assert service.asked == []


class Silent:
    """An adapter that must not be used."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"it was asked: {name}")


Call = Callable[[str], object]

CALLS: dict[str, Call] = {
    "claims.release": lambda name: ClaimsClient(Silent()).release(name),
    "claims.group": lambda name: ClaimsClient(Silent()).group(name),
    "claims.holds project": lambda name: next(ClaimsClient(Silent()).holds(project_id=name)),
    "claims.holds group": lambda name: next(ClaimsClient(Silent()).holds(group=name)),
    "history consumer": lambda name: next(HistoryClient(Silent()).writes(consumer=name)),
    "history provider": lambda name: next(HistoryClient(Silent()).writes(provider=name)),
    "history project": lambda name: next(HistoryClient(Silent()).writes(project_id=name)),
    "history request": lambda name: next(HistoryClient(Silent()).writes(request_id=name)),
    "names.name_of": lambda name: ProviderNames(Silent()).name_of(name),
    "names.holds_something": lambda name: ProviderNames(Silent()).holds_something(name),
    "plans.release": lambda name: PlansClient(Silent()).release(
        [{"held_by": {"consumer_uuid": name}}]
    ),
    "api.provider": lambda name: PlacementAPI(Silent()).provider(None, name),
    "api.provider_named": lambda name: PlacementAPI(Silent()).provider_named(None, name),
    "api.whole_tree": lambda name: PlacementAPI(Silent()).whole_tree(None, name),
    "api.providers_in_tree": lambda name: PlacementAPI(Silent()).providers_in_tree(None, name),
    "api.traits": lambda name: PlacementAPI(Silent()).traits(None, name),
    "api.allocations_of_consumer": lambda name: PlacementAPI(Silent()).allocations_of_consumer(
        None, name
    ),
    "api.delete_provider": lambda name: PlacementAPI(Silent()).delete_provider(None, name),
    "report.get_provider_tree_and_ensure_root": lambda name: ReportClient(
        Silent()
    ).get_provider_tree_and_ensure_root(None, name),
    "nova.migrations_of": lambda name: Nova(Silent()).migrations_of(name),
    "nova.server": lambda name: Nova(Silent()).server(name),
    "nova.knows": lambda name: Nova(Silent()).knows(name),
    "nova.delete": lambda name: Nova(Silent()).delete(name),
    "nova.consumers": lambda name: next(Nova(Silent()).consumers(name)),
    "nova.act": lambda name: Nova(Silent()).act(name, "migrate"),
}


@pytest.mark.parametrize("call", CALLS)
def test_no_client_asks_for_an_empty_name(call: str) -> None:
    """Without it the request would be another one: for all there is, or of the whole collection."""
    with pytest.raises(EmptyName, match="empty name or uuid"):
        CALLS[call]("")


def test_several_providers_of_one_name_are_refused() -> None:
    """As where something between does not pass the query on."""
    providers = [
        {"uuid": name, "name": name, "generation": 0, "root_provider_uuid": name} for name in "ab"
    ]
    answer = SimpleNamespace(
        status_code=200, headers={}, json=lambda: {"resource_providers": providers}
    )
    adapter = SimpleNamespace(get=lambda *_args, **_more: answer)
    with pytest.raises(ResourceProviderRetrievalFailed, match="2 providers"):
        PlacementAPI(adapter).provider_named(None, "a")
