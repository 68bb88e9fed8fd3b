"""placement-compare on two real services (specification 06 section 13.2)."""

import contextlib
import json
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests
from keystoneauth1 import exceptions as keystone_exceptions

from placement.client.comparison.meaning import SideAnswer, describe_difference, normalize
from placement.client.comparison.question import ComparedQuestion, QuestionKind
from placement.client.comparison.run import Comparison, NothingCompared
from placement.client.comparison.searches import read_log
from placement.client.comparison.side import Side
from placement.db import schema
from tests.client.conftest import serving
from tests.support import deployment
from tests.support.client import Client
from tests.support.databases import opened, scratch_database
from tests.support.processes import public_folder
from tests.support.programs import Command
from tests.support.service import Service, configure
from tests.support.world import World

pytestmark = pytest.mark.xdist_group("compare")  # one pair for all that only ask

POOL, LEFT, RIGHT = (str(uuid.UUID(int=number)) for number in (1, 2, 3))
AGGREGATE = str(uuid.UUID(int=9))
CONSUMERS = [str(uuid.UUID(int=number)) for number in (101, 102)]


@dataclass(frozen=True)
class Pair:
    """Two services on databases that begin as copies of one another."""

    old: str
    new: str


def furnish(world: World) -> None:
    """Two hosts that share a pool, with two consumers of one project."""
    sharing = ["MISC_SHARES_VIA_AGGREGATE"]
    world.provider("pool", None, {"DISK_GB": 900}, sharing, [AGGREGATE], POOL)
    stock = {"VCPU": {"total": 8, "reserved": 1}, "MEMORY_MB": 4096}
    for name, key, consumer in zip(("left", "right"), (LEFT, RIGHT), CONSUMERS, strict=True):
        world.provider(name, None, stock, ["HW_CPU_X86_AVX2"], [AGGREGATE], key)
        world.claim({key: {"VCPU": 2}, POOL: {"DISK_GB": 10}}, consumer, project_id="p")


@contextlib.contextmanager
def served_pair() -> Iterator[Pair]:
    with contextlib.ExitStack() as stack:
        furnished = stack.enter_context(scratch_database("sqlite", schema.HEAD))
        with opened(furnished) as database:
            furnish(World(Service(configure(placement_database__connection=furnished), database)))
        urls = []
        for _ in range(2):
            folder = stack.enter_context(public_folder("placement-compare-"))
            file = folder / "placement.sqlite"
            shutil.copy(furnished.removeprefix("sqlite:///"), file)
            environment = deployment.prepare(folder, f"sqlite:///{file}")
            urls.append(stack.enter_context(deployment.builtin(folder, environment)).url)
        yield Pair(*urls)


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    """A pair to ask, not to change."""
    with served_pair() as made:
        yield made


@pytest.fixture
def drifting() -> Iterator[Pair]:
    """A pair of which one may be changed."""
    with served_pair() as made:
        yield made


TOKEN = ("--os-auth-type", "admin_token", "--os-token", "admin", "--os-endpoint", "http://127.0.0.1:9")
LISTED = b'127.0.0.1 "GET /resource_providers" status: 200 len: 9 microversion: 1.39\n'


def compare(command: Command, pair: Pair, *more: str) -> tuple[int, dict[str, dict]]:
    done = command("placement-compare", pair.old, pair.new, "--json", *TOKEN, *more)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_copies_answer_alike(command: Command, pair: Pair) -> None:
    """Every kind of question is asked, none answered differently."""
    status, kinds = compare(command, pair, "--searches", "60")
    assert [found["differences"] for found in kinds.values() if found["differences"]] == []
    assert status == 0
    assert kinds.keys() == set(QuestionKind)
    assert kinds["allocation candidates"]["asked"] > 30
    assert kinds["consumers"]["equal"] == 10
    assert kinds["usages of projects"]["asked"] == 3 + 2 + 3


def test_each_difference_is_shown_with_a_command_for_each_side(
    command: Command, drifting: Pair
) -> None:
    """An inventory, a trait, a name, a consumer and so a search differ: all of it is told."""
    world = World(Client(drifting.new, kept=False))
    world.call("DELETE", f"/allocations/{CONSUMERS[0]}")
    inventory = {"resource_provider_generation": 4, "total": 16, "reserved": 1}
    world.call("PUT", f"/resource_providers/{RIGHT}/inventories/VCPU", inventory)
    world.call("PUT", "/traits/CUSTOM_ONLY_NEW")

    status, kinds = compare(command, drifting, "--searches", "60", "--seed", "7")

    assert status == 3
    assert all(found["asked"] == found["equal"] + found["different"] for found in kinds.values())
    wrong = {
        (one["path"], one["microversion"]): one
        for found in kinds.values()
        for one in found["differences"]
    }
    there = f"/resource_providers/{RIGHT}/inventories/VCPU"
    assert "8.0 against 16.0" in wrong[there, "1.39"]["words"]
    assert f"{drifting.new}{there}" in wrong[there, "1.39"]["new"]
    assert wrong[there, "1.39"]["old"].startswith('curl -s -H "X-Auth-Token: $OLD_TOKEN"')
    assert wrong["/traits/CUSTOM_ONLY_NEW", "1.39"]["words"] == "status 404 against 204"
    assert (f"/allocations/{CONSUMERS[0]}", "1.0") in wrong
    assert ("/usages?project_id=p", "1.9") in wrong
    assert kinds["allocation candidates"]["different"] > 0


def test_searches_of_a_log_are_asked(command: Command, pair: Pair, tmp_path: Path) -> None:
    log = tmp_path / "requests.log"
    log.write_text(
        '2026-01-01 12:00:00.000 7 INFO placement.requestlog [req-1] 127.0.0.1 "GET'
        ' /placement/allocation_candidates?limit=1000&resources=VCPU%3A1" status: 200 len: 9'
        " microversion: 1.36\n"
        '127.0.0.1 "PUT /placement/allocations/x" status: 204 len: 0 microversion: 1.36\n'
        f"{pair.old}/allocation_candidates?resources=DISK_GB:1\n"
    )
    _, kinds = compare(command, pair, "--queries", str(log), "--searches", "0")
    assert kinds["allocation candidates"]["asked"] == 2


@pytest.mark.parametrize(
    "content",
    [b"", b"a\n", b"//[\n", bytes(range(256)), LISTED],
    ids=["empty", "a word", "a bracket", "bytes", "a list"],
)
@pytest.mark.parametrize("searches", ["0", "5"])
def test_a_file_without_searches_is_an_error(
    command: Command, tmp_path: Path, content: bytes, searches: str
) -> None:
    """A wrong filter of the log must not look like a proof; nothing is asked, as no side is there."""
    log = tmp_path / "requests.log"
    log.write_bytes(content)
    sides = ("http://127.0.0.1:9", "http://127.0.0.1:9", *TOKEN)

    done = command("placement-compare", *sides, "--queries", str(log), "--searches", searches)

    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert f"nothing was compared. --queries: {log} has no line with a search" in line


HOST = {"uuid": LEFT, "name": "left"}
WRONG: dict[str, dict[str, Any]] = {
    "OLD: GET / ": {"/": {"versions": 5}},
    "OLD: GET /resource_providers ": {"/resource_providers": {"resource_providers": [{}]}},
    "OLD: GET /resource_classes ": {"/resource_classes": {"a": 1}},
    f"OLD: GET /resource_providers/{LEFT}/inventories ": {
        f"/resource_providers/{LEFT}/inventories": {"inventories": {"VCPU": {"total": 5}}}
    },
    "GET /allocation_candidates?resources=VCPU:1 ": {"/allocation_candidates": {"a": 1}},
}


@pytest.mark.parametrize("asked", WRONG)
def test_a_side_that_is_not_placement_is_named(command: Command, tmp_path: Path, asked: str) -> None:
    """Its document has other members; every other answer is as of a service with one provider."""
    log = tmp_path / "log"
    log.write_text("/allocation_candidates?resources=VCPU:1\n")
    answers = {
        "/": {"versions": []},
        "/resource_providers": {"resource_providers": [HOST]},
        "/resource_classes": {"resource_classes": []},
        "/traits": {"traits": []},
        f"/resource_providers/{LEFT}/inventories": {"inventories": {}},
        f"/resource_providers/{LEFT}/traits": {"traits": []},
        f"/resource_providers/{LEFT}/aggregates": {"aggregates": []},
        f"/resource_providers/{LEFT}/allocations": {"allocations": {}},
        "/allocation_candidates": {"allocation_requests": [], "provider_summaries": {}},
    } | WRONG[asked]

    def peer(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [("Content-Type", "application/json")])
        return [json.dumps(answers.get(environ["PATH_INFO"], {})).encode()]

    with serving(peer) as url:
        more = ("--queries", str(log), "--searches", "1")
        done = command("placement-compare", url, url, *TOKEN, *more)

    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert f"nothing was compared. {asked}is not answered as by a Placement service" in line


@pytest.mark.parametrize("piped", [b"", b"\xff\xfe\n"], ids=["empty", "bytes"])
def test_an_empty_pipe_of_searches_is_an_error(environment: dict[str, str], piped: bytes) -> None:
    sides = ("http://127.0.0.1:9", "http://127.0.0.1:9", *TOKEN)

    done = subprocess.run(
        [sys.executable, "-m", "placement.cmd.compare", *sides, "--queries", "-"],
        input=piped, env=environment, capture_output=True, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stdout) == (2, b"")
    assert b"standard input has no line with a search" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("under", "token", "words"),
    [
        ("", "nobody", "OLD: GET /resource_providers: HTTP 403"),
        ("/placement", "admin", "OLD: GET /: HTTP 404"),
    ],
)
def test_services_that_refuse_everything_do_not_count_as_alike(
    command: Command, pair: Pair, under: str, token: str, words: str
) -> None:
    """A token without a role, and a wrong prefix."""
    auth = ("--os-auth-type", "admin_token", "--os-token", token, "--os-endpoint", pair.old)
    done = command("placement-compare", pair.old + under, pair.new + under, *auth)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"nothing was compared. {words}" in done.stderr


class Stub:
    """An adapter whose service answers each request with the same; ``asked`` counts them."""

    def __init__(self, status: int, text: str) -> None:
        self.asked = 0
        self.answer = requests.Response()
        self.answer.status_code, self.answer._content = status, text.encode()

    def get(self, *_: object, **__: object) -> requests.Response:
        self.asked += 1
        if not self.answer.status_code:
            raise keystone_exceptions.ConnectFailure("connection refused")
        return self.answer

    def get_endpoint(self) -> str:
        return ""


EMPTY = '{"versions": [], "resource_providers": []}'


@pytest.mark.parametrize(
    ("status", "text", "words", "asked"),
    [
        (0, "", "connection refused", 1),
        (401, "{}", "HTTP 401", 1),
        (403, "[]", "HTTP 403", 1),
        (404, "<html>", "HTTP 404 <html>", 1),
        (503, "", "HTTP 503", 1),
        (200, "<html>", "not answered as by a Placement", 1),
        (200, "{}", "not answered as by a Placement", 1),
        (200, EMPTY, "Neither side has a resource provider", 2),
    ],
)
def test_a_side_without_answers_is_asked_only_the_first_questions(
    status: int, text: str, words: str, asked: int
) -> None:
    """Each in turn; where both are asked, both."""
    stub, other = Stub(status, text), Stub(200, EMPTY)
    for sides in ((stub, stub), (stub, other), (other, stub)):
        stub.asked = 0
        comparison = Comparison(*(Side("OLD", one) for one in sides))
        with pytest.raises(NothingCompared, match=words):
            comparison.run(searches=9)
        assert stub.asked <= asked * 2
        assert not comparison.results


def test_a_kind_that_both_refuse_is_not_compared(
    command: Command, pair: Pair, tmp_path: Path
) -> None:
    """All searches of the log are wrong: the rest agrees, and the proof is not whole."""
    log = tmp_path / "searches"
    log.write_text("/allocation_candidates?resources=NOTHING:1\n")
    auth = ("--os-auth-type", "admin_token", "--os-token", "admin", "--os-endpoint", pair.old)
    done = command(
        *("placement-compare", pair.old, pair.new, "--queries", str(log), "--searches", "0"), *auth
    )
    assert done.returncode == 2
    assert "of allocation candidates nothing was compared" in done.stderr


def test_log_lines_name_each_search_once_with_its_microversion() -> None:
    line = '"GET /allocation_candidates?resources=VCPU:1" status: 200 len: 5 microversion: 1.29'
    found = list(read_log([line, line, "/allocation_candidates?resources=VCPU:1", "noise", ""]))
    assert [(one.microversion, one.kind) for one in found] == [
        ("1.29", QuestionKind.SEARCHES),
        ("1.39", QuestionKind.SEARCHES),
    ]


QUESTION = ComparedQuestion(
    QuestionKind.SEARCHES, "/allocation_candidates?resources=VCPU:2&limit=1", "1.39"
)


def candidate(amount: int, free: int) -> SideAnswer:
    request = {"allocations": {LEFT: {"resources": {"VCPU": amount}}}, "mappings": {"": [LEFT]}}
    summary = {LEFT: {"resources": {"VCPU": {"capacity": free, "used": 0}}}}
    body = {"allocation_requests": [request], "provider_summaries": summary}
    return SideAnswer(200, body, 0.0)


@pytest.mark.parametrize(
    ("new", "words"),
    [
        (candidate(2, 8), None),
        (candidate(2, 1), "NEW offers an impossible candidate"),
        (candidate(3, 8), "NEW offers an impossible candidate"),
    ],
)
def test_candidates_that_a_limit_cut_need_only_be_valid(new: SideAnswer, words: str | None) -> None:
    found = describe_difference(QUESTION, candidate(2, 9), new)
    assert found is None if words is None else found is not None and words in found


def test_order_does_not_count_and_numbers_are_numbers() -> None:
    assert normalize({"a": [{"b": 1}, {"b": 2.0}]}) == normalize({"a": [{"b": 2}, {"b": 1.0}]})
    assert normalize([True]) != normalize([2])
