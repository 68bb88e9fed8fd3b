"""What is written by hand shows after one round of the scrub, in every worker (specification 06 section 7.8).

Four workers have looked at a cloud; then a line of ``by_hand.LINES`` is written into its tables, and one of
``AFTERWARDS`` happens. After a round what the workers answer is, byte for byte, what a service answers that
has started anew after ``db check --repair``. The long mode tries each line in all ways; else some in one.
"""

import itertools
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, insert, select

from placement import telemetry
from placement.db import change_rows, invariants, models, scrub, writes
from placement.db.change import Change
from placement.db.coexistence import takeover
from placement.extensions.questions import tables as questions_tables
from placement.objects import picture, scrubber
from placement.objects.scrubber import Scrubber
from tests.proofs.promise.stage import Stage, stage
from tests.proofs.scrub.by_hand import LINES, PAGES, SKIPPED, ByHand
from tests.support import bodies
from tests.support.client import Answer
from tests.support.damage import SOUND, STRUCK, TABLE, Damage, figures, questions
from tests.support.databases import MAIN_ROUTES
from tests.support.effort import LONG, drawn_by_run, in_one_process
from tests.support.service import Service

COUNTED = (
    *(f"placement_{figure.name}" for figure in telemetry.list_figures()),
    "placement_capacity_age_seconds",
)
"""Figures of a process and not of the database."""

ALL = [
    path
    for path in dict.fromkeys([*questions(STRUCK), *figures(STRUCK)])
    # A token is of the log of changes, not of what the database has.
    if path not in ("", "/", "/-/changes") and "explorer" not in path and STRUCK.uuid("new") not in path
]
FEW = ["/-/trees?allocations=true", "/resource_providers", f"/allocation_candidates?{STRUCK.query}"]
"""What shows all that a picture has."""

PROVIDERS = ("root", "child", "share")

MOST_REQUESTS = 200
"""After which a round that is carried by requests has not come to its end."""


class Workers:
    """Four workers on one database, which is put back to what is there before each line.

    ``carry``: requests take the scrub along while it is set.
    """

    def __init__(self, place: Stage, mode: str, carry: threading.Event) -> None:
        self.place, self.db, self.all, self.carry = place, place.db, place.players, carry
        self.is_shared = mode == "shared"
        for half in (SOUND, STRUCK):
            half.make(self.all[0])
        record = {"shape": "small", "recorded_at": 1, "placements": 1}
        added = insert(questions_tables.capacity_records).values(record)
        self.db.write(lambda tx: tx.connection.execute(added))
        if self.is_shared:
            takeover.release(self.db)
        self._rows = place.go_on(())

    def begin(self) -> None:
        """Put back what is there before, and let every worker look."""
        self.place.put_back(self._rows)
        slots = models.provider_changes.c.slot
        self.db.write(lambda tx: tx.change(delete(models.provider_changes).where(slots >= change_rows.SLOTS)))
        self.db.write(change_rows.restore)
        for worker in self.all:
            ask(worker, FEW)

    def new(self) -> Service:
        """Return a service that has started anew."""
        return Service(self.all[0].conf, self.db)


def ask(service: Service, paths: Sequence[str]) -> dict[str, Any]:
    """Return the documents that are answered, without what is of the request or of the process."""
    answers = {path: service.send("GET", path) for path in paths}
    return {path: (answer.status, _read(answer)) for path, answer in answers.items()}


def _read(answer: Answer) -> Any:
    if answer.text.startswith("# HELP"):
        lines = answer.text.splitlines()
        return sorted(line for line in lines if not line.startswith(("#", *COUNTED)))
    if answer.status >= 400:
        return answer.json["errors"][0]["detail"]
    return answer.json if answer.text.startswith("{") else answer.text


def by_command(workers: Workers) -> None:
    """Go through everything, as ``db scrub`` does."""
    scrub.scrub_all(workers.db)




def by_requests(workers: Workers) -> None:
    """Send requests, in turn to each worker, until what is left of a round and a whole one are over."""
    wanted = _rounds(workers) + 2
    workers.carry.set()
    try:
        for worker in itertools.islice(itertools.cycle(workers.all), MOST_REQUESTS):
            assert worker.send("GET", "/").status == 200
            if _rounds(workers) == wanted:
                return
    finally:
        workers.carry.clear()
    raise AssertionError(f"no round within {MOST_REQUESTS} requests")


def _rounds(workers: Workers) -> int:
    return int(workers.db.read(lambda reader: reader.value(select(models.scrub.c.rounds))) or 0)


def nothing(service: Service) -> None:
    """Let the round come right after the line."""


def start_anew(service: Service) -> None:
    """Let another worker read the tables as the line has left them."""
    ask(Service(service.conf, service.db), FEW)


def claim(service: Service) -> None:
    """Claim of the struck half, granted or not: that moves the revision of its root."""
    sets = {STRUCK.uuid("root"): {"VCPU": 1}}
    service.send("PUT", f"/allocations/{STRUCK.uuid('new')}", STRUCK.entry(sets, None))


def stock(service: Service) -> None:
    """Replace inventories of the struck half: that notes what its providers have now."""
    for what in ("root", "child", "share"):
        path = f"/resource_providers/{STRUCK.uuid(what)}"
        known = service.send("GET", path)
        if known.status == 200:
            body = bodies.stock(known.json["generation"], {"VGPU": 9})
            service.send("PUT", f"{path}/inventories", body)


SHOWN_LATER = {
    *("delete-resource_providers", "change-resource_providers-id", "delete-a-provider-and-what-it-has"),
    *(f"removed-of-resource_providers-{each}" for each in PROVIDERS),
    "delete-a-tree-and-what-it-has",
}
"""Lines after which nothing is left to be compared: a provider that is gone is noticed when a worker compares
all revisions, once a minute."""

AFTERWARDS = (nothing, start_anew, claim, stock)
"""What happens between a line and the round."""

ROUNDS = (by_command, by_requests)
MODES = [f"{route}-{mode}" for route in MAIN_ROUTES for mode in ("unshared", "shared")]
Way = tuple[str, Callable[[Workers], None], Callable[[Service], None]]
WAYS: list[Way] = list(itertools.product(MODES, ROUNDS, AFTERWARDS))

NO_NEWS = ("created_at", "updated_at", "-id")
"""Lines that end so are tried in the long mode alone: no answer has what they change."""

Line = ByHand | Damage
DAMAGES = [damage for damage in TABLE if SKIPPED.keys().isdisjoint(damage.tables.split())]
DRAWN = 16
"""Lines that CI draws for each run, beside those of pages. None whose change no answer has."""


def _choose() -> list[tuple[Way, Line]]:
    """Return the lines that are tried, with ways: in the long mode each in all of them, else each in one."""
    if LONG:
        return [(way, line) for line in (*LINES, *DAMAGES) for way in WAYS]
    drawn = drawn_by_run(__name__)
    pages = [line for line in LINES if line.name in PAGES]
    others = [line for line in LINES if line not in pages and not str(line).endswith(NO_NEWS)]
    return [(drawn.choice(WAYS), line) for line in (*pages, *drawn.sample([*others, *DAMAGES], DRAWN))]


CASES = [
    pytest.param(*way, line, id="-".join((way[0], way[1].__name__, way[2].__name__, str(line))))
    for way, line in _choose()
]


@pytest.fixture(scope="module", params=in_one_process("by hand", *MODES))
def workers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    route, mode = request.param.rsplit("-", 1)
    shapes: Path = tmp_path_factory.mktemp("by-hand") / "shapes.yaml"
    shapes.write_text("small: resources=VCPU:1\n")
    carry = threading.Event()
    with pytest.MonkeyPatch.context() as patched:
        # What is found by chance, because a minute is over, is not found by the scrub.
        patched.setattr(picture, "COMPARE_EVERY_S", math.inf)
        patched.setattr(scrubber, "PAUSES_S", (0.0, 0.0))
        patched.setattr(scrubber, "ROUND_S", 0.0)
        patched.setattr(scrubber, "THOROUGH_EVERY", 1)
        patched.setattr(Scrubber, "is_due", lambda _: carry.is_set())
        options = {"placement_database__scrub_share": 50, "insight__metrics_per_provider": True}
        with stage(route, 4, insight__shapes_file=str(shapes), **options) as place:
            yield Workers(place, mode, carry)


@pytest.mark.parametrize(("workers", "round_", "then", "line"), CASES, indirect=["workers"])
def test_a_line_shows_after_one_round(
    workers: Workers,
    round_: Callable[[Workers], None],
    then: Callable[[Service], None],
    line: Line,
    record_property: Callable[[str, object], None],
) -> None:
    workers.begin()
    if line.apply(workers.db) is False:
        return
    then(workers.all[1])

    round_(workers)

    assert_all_is_shown(workers, line)
    record_property("runs", 1)


def assert_all_is_shown(workers: Workers, line: Line) -> None:
    """Let every worker answer as a service that has started anew, and nothing be left to repair."""
    if str(line) in SHOWN_LATER:
        for worker in workers.all:
            compare_all(worker)
    first, *others = (ask(worker, FEW if n else ALL) for n, worker in enumerate(workers.all))
    # While another service writes too, what is derived is not believed, and left to the end of that.
    repaired = 0
    if not workers.is_shared:
        # An id that was written by hand may be above the sequence, which no round of the scrub sets.
        invariants.repair(workers.db, invariants.SEQUENCES)
        repaired = sum(invariants.repair(workers.db, each) for each in invariants.list_invariants())
    right = ask(workers.new(), ALL)
    assert {path: (first[path], right[path]) for path in ALL if first[path] != right[path]} == {}
    assert all(seen[path] == right[path] for seen in others for path in FEW)
    assert repaired == 0


def compare_all(worker: Service) -> None:
    """Let its picture compare all revisions at the next look, as it does once a minute."""
    # A mark that no log leads to.
    worker.db.write(lambda tx: writes.finish(tx, Change(is_unnamed=True)))


@pytest.mark.parametrize("workers", MODES[:1], indirect=True)
@pytest.mark.parametrize("name", ["insert a trait", "move what is on a host", "forget the sums of owners"])
def test_the_proof_notices_a_scrub_that_does_nothing(workers: Workers, name: str) -> None:
    line = next(line for line in LINES if line.name == name)
    workers.begin()
    line.apply(workers.db)

    with pytest.raises(AssertionError):
        assert_all_is_shown(workers, line)


def test_each_table_is_written_or_skipped_with_a_reason() -> None:
    named = {word for line in LINES for word in line.name.split()}
    for table in models.whole_metadata().tables:
        assert (table in named) != (table in SKIPPED)
