"""The commands of ``openstack`` on a service: what they say, and how they go on."""

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from cliff.columns import FormattableColumn
from keystoneauth1 import session, token_endpoint
from osc_lib import exceptions
from osc_placement.http import SessionClient

from placement.client.api import CHECK_IDENTITY
from placement.client.moving import PlainMover, PlanAround
from placement.client.osc import insight, nova_steps, plans, text
from placement.client.osc.candidates import AllocationCandidateCapacity, ExplainAllocationCandidate
from placement.client.osc.claims import ConfirmClaim, CreateClaim, ListHolds, ShowGroup
from placement.client.osc.history import ShowPlacementHistory
from placement.client.osc.plan_run import RunPlan
from placement.client.osc.plans import CreatePlan
from placement.client.osc.providers import CheckResourceProviderDrain, ShowResourceProviderTree
from placement.client.osc.survival import ShowPlacementSurvival
from placement.client.plans import NoPlanFound, PlanFailed, PlansClient
from placement.extensions.plans.schemas import LARGEST_COST
from tests.client.conftest import serving
from tests.support.processes import wait_until
from tests.support.service import running
from tests.support.world import World, new_uuid

DISABLED = "COMPUTE_STATUS_DISABLED"
MARK, OTHER_MARK = "HW_NIC_SRIOV", "HW_GPU_API_VULKAN"


def make_app(asked: session.Session) -> Any:
    """Return what a command gets, as ``openstack`` gives it."""
    client = SessionClient(asked, {"service_type": "placement"}, "1.39")
    return SimpleNamespace(client_manager=SimpleNamespace(placement=client))


class Commands:
    """Runs commands on a service, in this process.

    ``host``: a host with a server, where others take nothing new. ``server``: one that has moved.
    """

    host: str
    server: str

    def __init__(self, world: World, url: str) -> None:
        self.world = world
        self.session = session.Session(token_endpoint.Token(url, "admin"))
        self.app = make_app(self.session)

    def take(self, kind: Any, *words: str) -> tuple[Any, Any]:
        """Return the columns and the values of a command."""
        command = kind(self.app, None)
        columns, values = command.take_action(command.get_parser("x").parse_args(words))
        return columns, values

    def show(self, kind: Any, *words: str) -> dict[str, Any]:
        """Return what a command shows, by its fields: as programs get it."""
        columns, values = self.take(kind, *words)
        return dict(zip(columns, map(machine_readable, values), strict=True))

    def print(self, kind: Any, *words: str) -> dict[str, str]:
        """Return the same as people read it."""
        columns, values = self.take(kind, *words)
        return dict(zip(columns, map(human_readable, values), strict=True))


def machine_readable(value: Any) -> Any:
    return value.machine_readable() if isinstance(value, FormattableColumn) else value


def human_readable(value: Any) -> str:
    return value.human_readable() if isinstance(value, FormattableColumn) else str(value)


@pytest.fixture
def commands() -> Iterator[Commands]:
    settings = {"insight__enabled": True, "insight__history_days": 30.0}
    with running("sqlite", **settings) as service, serving(service.application) as url:
        made = Commands(World(service), url)
        yield made
        made.session.session.close()


# ---- what is avoided

AVOIDING: dict[str, Any] = {
    "plan create": CreatePlan,
    "plan run": RunPlan,
    "survival": ShowPlacementSurvival,
    "drain check": CheckResourceProviderDrain,
}
NEEDED = {"plan create": ["--keep", "g"], "plan run": ["--keep", "g"], "drain check": ["host"]}


def parse(command: str, *words: str) -> argparse.Namespace:
    parser = AVOIDING[command](None, None).get_parser("x")
    parsed: argparse.Namespace = parser.parse_args([*NEEDED.get(command, []), *words])
    return parsed


@pytest.mark.parametrize(
    ("words", "avoid"),
    [
        ([], None),
        (["--avoid", ""], []),
        (["--avoid", "A"], ["A"]),
        (["--avoid", "A,B"], ["A", "B"]),
        (["--avoid", "A", "--avoid", "B,CUSTOM_C"], ["A", "B", "CUSTOM_C"]),
        (["--avoid", "", "--avoid", "A"], ["A"]),
    ],
)
@pytest.mark.parametrize("command", AVOIDING)
def test_traits_to_avoid_are_repeated_or_between_commas(
    command: str, words: list[str], avoid: list[str] | None
) -> None:
    """Without the option those of the service hold; an empty one lifts them. The same in all commands."""
    parsed = parse(command, *words)
    assert parsed.avoid == avoid
    if command.startswith("plan"):
        body = plans.make_body(None, parsed)
        assert body.get("may", {}).get("move", {}).get("avoid") == avoid


@pytest.mark.parametrize(
    "given", ["compute_x", "none", "A,,B", ",", " ", "A B", "A, B", "Ä", "A" * 256]
)
@pytest.mark.parametrize("command", AVOIDING)
def test_what_is_no_name_of_a_trait_is_refused(
    command: str, given: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(command, "--avoid", given)
    assert ended.value.code == 2
    assert "is no name of a trait" in capsys.readouterr().err


def one_help(command: str) -> str | None:
    parser = AVOIDING[command](None, None).get_parser("x")
    (found,) = [each.help for each in parser._actions if "--avoid" in each.option_strings]
    return found


def test_the_help_of_avoid_is_the_same_in_all_commands() -> None:
    assert len({one_help(command) for command in AVOIDING}) == 1


@pytest.fixture
def closed(commands: Commands) -> Commands:
    """Three hosts, of which the first has a server and the last two take nothing new."""
    first, *others = (commands.world.host(key=new_uuid(), VCPU=2) for _ in range(3))
    for other in others:
        commands.world.set_traits(other, [DISABLED])
    commands.world.claim({first: {"VCPU": 2}})
    commands.host = first
    return commands


SENTENCE = "2 trees took nothing new, since they have one of the traits of `avoid`."
NONE = "No tree has one of the traits of `avoid`."


def joined(printed: str) -> str:
    """Return text without its line breaks."""
    return " ".join(printed.split())


def test_trees_that_took_nothing_are_told(
    closed: Commands, capsys: pytest.CaptureFixture[str]
) -> None:
    """In words to people, as a number to programs."""
    for kind, words in (
        (ShowPlacementSurvival, []),
        (CheckResourceProviderDrain, [closed.host]),
    ):
        assert joined(closed.print(kind, *words)["avoided"]) == SENTENCE
        assert closed.show(kind, *words)["avoided"] == 2
        assert "avoided" not in closed.show(kind, *words, "--avoid", "")
        assert joined(closed.print(kind, *words, "--avoid", MARK)["avoided"]) == NONE
    closed.take(CreatePlan, "--place", "resources=VCPU:1", "--avoid", MARK)
    assert NONE in joined(capsys.readouterr().err)
    closed.take(CreatePlan, "--place", "resources=VCPU:1", "--avoid", "")
    assert "avoid" not in capsys.readouterr().err
    closed.take(CreatePlan, "--empty-any", "1", "--of", closed.host, "--remove-type", "INSTANCE")
    assert SENTENCE in joined(capsys.readouterr().err)


def test_a_refused_plan_tells_them_too(closed: Commands) -> None:
    with pytest.raises(exceptions.CommandError) as refused:
        closed.take(CreatePlan, "--empty", closed.host)
    assert SENTENCE in joined(str(refused.value))


def test_one_tree_is_one() -> None:
    assert text.say_avoided(1) == (
        "1 tree took nothing new, since it has one of the traits of `avoid`."
    )


def test_a_part_of_an_answer_in_avoided_trees_stays_a_number() -> None:
    """``explain`` and ``capacity`` answer as it stands: there nothing was left out."""
    shown: dict[str, Any] = {}
    insight.show_part_in_avoided(shown, 0, 0)
    assert shown == {}
    insight.show_part_in_avoided(shown, 2, 0)
    assert shown == {"avoided": 2, "of these in avoided": 0}


def test_a_plan_in_python_says_it_too(closed: Commands) -> None:
    """So ``plan run`` words it, which asks by this client."""
    client = PlansClient(nova_steps.placement_adapter(closed.app))
    goal = {"place": "resources=VCPU:1"}
    for may, avoid, sentence in (
        ({"move": {"avoid": []}}, [], None),
        ({"move": {"avoid": [MARK]}}, [MARK], NONE),
    ):
        plan = client.make(goal, may=may)
        assert (plan.avoid, plan.avoided) == (avoid, 0)
        assert plans.word_plan(vars(plan)).splitlines()[1:] == [sentence][: sentence is not None]
    with pytest.raises(NoPlanFound) as refused:
        client.make({"place": "resources=VCPU:9"})
    assert refused.value.avoided == 2


# ---- refusals


def test_a_refusal_begins_with_its_sentence(closed: Commands) -> None:
    """The same for ``plan create --nova`` and ``plan run`` as for ``plan create``."""
    client = PlansClient(nova_steps.placement_adapter(closed.app))
    around = PlanAround(client, PlainMover(client))
    with pytest.raises(exceptions.CommandError) as by_nova, plans.refusals_explained(around):
        around.make({"place": "resources=VCPU:9"})
    with pytest.raises(exceptions.CommandError) as by_itself:
        closed.take(CreatePlan, "--place", "resources=VCPU:9")
    assert str(by_nova.value) == str(by_itself.value)
    assert str(by_nova.value).startswith("No plan was found. There is none.\n")
    with pytest.raises(PlanFailed, match=r"HTTP 400 [a-z._]+: The query of goal.place: "):
        client.make({"place": ""})


@pytest.mark.parametrize("option", ["--move-cost", "--remove-cost"])
def test_the_costs_of_steps_have_the_bounds_of_the_service(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert plans.MOST_COST == LARGEST_COST
    words = ["--keep", "g", option]
    parser = CreatePlan(None, None).get_parser("x")
    for given in ("0.001", "1e6"):
        parser.parse_args([*words, given])
    for given in ("0", "1000001"):
        with pytest.raises(SystemExit):
            parser.parse_args([*words, given])
        assert "must be a number above 0 and at most 1000000" in capsys.readouterr().err


# ---- consumers without a type or a project


def test_consumers_without_a_type_are_worded_without_it() -> None:
    each = {"uuid": "u", "project": "demo", "allocations": {"h": {"VCPU": 2}}}
    assert text.word_consumers([{**each, "type": None}]) == "u of project demo: VCPU=2"
    assert text.word_consumers([{**each, "type": "INSTANCE"}]) == (
        "u (INSTANCE) of project demo: VCPU=2"
    )
    assert text.word_consumers([{**each, "type": None, "project": None}]) == "u: VCPU=2"


# ---- the history of a server


@pytest.fixture
def moved(commands: Commands, monkeypatch: pytest.MonkeyPatch) -> Commands:
    """A server with three migrations; each has written several rows, some of them at one moment."""
    server, *migrations = (new_uuid() for _ in range(4))
    hosts = [commands.world.host(key=new_uuid(), VCPU=8) for _ in range(3)]
    for consumer in (server, *migrations):
        commands.world.claim({host: {"VCPU": 1} for host in hosts}, consumer)
        # A page has all rows of its last millisecond: on a fast machine those of both writes.
        written_ms = time.time_ns() // 1_000_000
        wait_until("the clock has moved", lambda ms=written_ms: time.time_ns() // 1_000_000 > ms)
        commands.world.release(consumer)
    nova = SimpleNamespace(migrations_of=lambda _server: [{"uuid": each} for each in migrations])
    monkeypatch.setattr(nova_steps, "nova_of", lambda _app: nova)
    commands.server = server
    return commands


ROWS = 4 * 3 * 2


@pytest.mark.parametrize("limit", [1, 2, 5, 7, ROWS - 1, ROWS, 100])
def test_the_history_of_a_server_goes_on(moved: Commands, limit: int) -> None:
    """Page after page by ``next`` it shows each write once, newest first."""
    found: list[Any] = []
    words: list[str] = []
    for _ in range(ROWS + 1):
        page = moved.show(
            ShowPlacementHistory, "--server", moved.server, "--limit", str(limit), *words
        )
        found += page["writes"]
        if page["next"] is None:
            break
        assert len(page["writes"]) >= limit
        words = ["--marker", page["next"]]
    assert len(found) == ROWS
    assert len({str(each) for each in found}) == ROWS
    assert [each["at"] for each in found] == sorted((each["at"] for each in found), reverse=True)


def test_the_history_of_a_server_says_that_there_is_more(moved: Commands) -> None:
    """Also with the default limit of 20."""
    page = moved.show(ShowPlacementHistory, "--server", moved.server)
    assert page["next"] == page["writes"][-1]["at"]


def test_a_marker_of_another_question_is_refused(moved: Commands) -> None:
    for words in (["--marker", "12-3"], ["--consumer", new_uuid()]):
        with pytest.raises(exceptions.CommandError, match="--server"):
            moved.show(ShowPlacementHistory, "--server", moved.server, *words)


@contextmanager
def app_of_other_program(status: int, answer: bytes) -> Iterator[Any]:
    """Yield what a command gets where another program answers each request."""

    def other_program(_environ: Any, start_response: Any) -> list[bytes]:
        start_response(f"{status} Some", [("Content-Type", "text/html")])
        return [answer]

    with serving(other_program) as url:
        made = session.Session(token_endpoint.Token(url, "admin"))
        yield make_app(made)
        made.session.close()


def fail(app: Any, kind: Any, *words: str) -> str:
    """Return what a command says that fails."""
    command = kind(app, None)
    with pytest.raises(exceptions.CommandError) as failed:
        command.take_action(command.get_parser("x").parse_args(words))
    return str(failed.value)


@pytest.mark.parametrize(
    ("status", "answer"), [(200, b"<html>Hello</html>"), (200, b"null"), (200, b"[]"), (409, b"{}")]
)
@pytest.mark.parametrize(
    "words",
    [
        (ShowPlacementSurvival,),
        (ShowPlacementHistory,),
        (CheckResourceProviderDrain, "a host"),
        (CreatePlan, "--empty", new_uuid()),
    ],
)
def test_an_endpoint_that_is_not_placement_is_named(
    words: tuple[Any, ...], status: int, answer: bytes
) -> None:
    with app_of_other_program(status, answer) as app:
        assert "is not Placement" in fail(app, *words)


SOMEONE = new_uuid()
KEYSTONE = b'{"error": {"code": 401, "title": "Unauthorized", "message": "The request requires"}}'
PAGE = b"<html>\n<h1>No\x1b</h1></html>"


@pytest.mark.parametrize(
    ("status", "answer", "said"),
    [
        (401, KEYSTONE, "GET /-/holds: HTTP 401: {"),
        (401, PAGE, r"GET /-/holds: HTTP 401: <html> <h1>No\x1b</h1></html> "),
        (403, PAGE, "GET /-/holds: HTTP 403: <html>"),
        (404, PAGE, "What answers GET /-/holds is not Placement: HTTP 404: <html>"),
        (406, PAGE, "What answers GET /-/holds is not Placement: HTTP 406: <html>"),
        (429, PAGE, "What answers GET /-/holds is not Placement: HTTP 429: <html>"),
    ],
)
def test_a_refusal_by_another_program_is_told_with_its_status(
    status: int, answer: bytes, said: str
) -> None:
    """The token is checked before Placement; where it was refused, the endpoint may well be right."""
    with app_of_other_program(status, answer) as app:
        words = fail(app, ListHolds)

    assert words.startswith(said)
    of_identity = status in (401, 403)
    assert words.endswith(CHECK_IDENTITY if of_identity else "Is its endpoint right?")
    assert ("endpoint" in words) != of_identity


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((ListHolds,), "GET /-/holds is not Placement: its document has no 'holds'"),
        ((ShowGroup, "g"), "GET /-/groups/g is not Placement: its document has no 'members'"),
        ((ConfirmClaim, SOMEONE), f"GET /allocations/{SOMEONE} is not Placement: its document has no"),
        (
            (CreateClaim, "--project-id", "p", "--user-id", "u", "--resource", "VCPU=1"),
            "POST /-/claims is not Placement: its document has no 'claims'",
        ),
        ((ShowPlacementHistory,), "GET /-/history?limit=20 is not Placement: its document has no"),
        ((ShowPlacementSurvival,), "is not Placement: its document has no 'places'"),
        ((ExplainAllocationCandidate, "--resource", "VCPU=1"), "its document has no 'candidates'"),
        (
            (ExplainAllocationCandidate, "--resource", "VCPU=1", "--or", "resources=VCPU:2"),
            "its document has no 'chosen'",
        ),
        ((AllocationCandidateCapacity, "--resource", "VCPU=1"), "its document has no 'count'"),
        ((ShowResourceProviderTree, SOMEONE), "its document has no 'trees'"),
        ((ShowResourceProviderTree, "a host"), "its document has no 'resource_providers'"),
        ((CheckResourceProviderDrain, SOMEONE), "its document has no 'homeless'"),
        ((CreatePlan, "--place", "resources=VCPU:1"), "POST /-/plans is not Placement: its document"),
    ],
    ids=lambda given: given[0].__name__ if isinstance(given, tuple) else "",
)
def test_a_document_with_other_members_is_not_of_placement(words: tuple[Any, ...], said: str) -> None:
    with app_of_other_program(200, b'{"a": 1}') as app:
        assert said in fail(app, *words)


def test_a_refused_token_is_named_where_the_client_library_asks() -> None:
    refused = PlanFailed("HTTP 401: Unauthorized", status=401)
    with (
        pytest.raises(exceptions.CommandError, match=r"HTTP 401.*user, project and password"),
        nova_steps.failures_as_command_errors(),
    ):
        raise refused
