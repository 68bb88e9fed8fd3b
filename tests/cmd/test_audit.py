"""placement-manage audit against a list of consumers (specification 07 section 8)."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import update

from placement.cmd import audit
from placement.db import consumer_rows, models, standard_names
from placement.db.database import Database
from placement.objects import allocation
from placement.objects.allocation import AllocationChange
from placement.objects.replacement import ConsumerChange
from tests.support import ledger_data
from tests.support.ledger_data import HOST, SECOND
from tests.support.programs import Command
from tests.support.revisions import AT_HEAD

ALIVE, LEAK, YOUNG_LEAK = (f"cccccccc-0000-4000-8000-00000000000{number}" for number in "123")
UNKNOWN = "eeeeeeee-0000-4000-8000-000000000001"


@pytest.fixture
def ledger(database: Database) -> Iterator[Database]:
    """A small cloud with three consumers, of which two are old."""
    standard_names.synchronise(database)
    ledger_data.add_cloud(database)
    for consumer, held in (
        (ALIVE, {HOST: {"VCPU": 1}}),
        (LEAK, {HOST: {"VCPU": 2, "DISK_GB": 20}, SECOND: {"VCPU": 3}}),
        (YOUNG_LEAK, {SECOND: {"MEMORY_MB": 5}}),
    ):
        claim(database, consumer, held)
    old = models.now().replace(year=2020)
    database.write(
        lambda tx: tx.connection.execute(
            update(models.consumers)
            .where(models.consumers.c.uuid != YOUNG_LEAK)
            .values(created_at=old, updated_at=old)
        )
    )
    yield database


def uuid_of(number: int) -> str:
    return f"dddddddd-0000-4000-8000-{number:012}"


def fill(database: Database, number: int) -> None:
    """Make a cloud in which so many consumers hold something."""
    standard_names.synchronise(database)
    ledger_data.add_cloud(database)
    for each in range(number):
        claim(database, uuid_of(each), {HOST: {"DISK_GB": 10}})


def claim(database: Database, consumer: str, held: dict[str, dict[str, int]]) -> None:
    change = ConsumerChange(consumer, held, "a-project", "a-user", type="INSTANCE")
    allocation.replace_allocations(database, AllocationChange.of_one(change))


@pytest.fixture
def existing(tmp_path: Path) -> Path:
    """A file that lists one consumer that holds something and one that does not."""
    file = tmp_path / "consumers"
    file.write_text(f"{ALIVE.upper()}\n\n{UNKNOWN}\n")
    return file


@AT_HEAD
def test_leaks_and_who_holds_nothing_are_told(
    command: Command, ledger: Database, url: str, existing: Path
) -> None:
    done = command("placement-manage", "audit", "--consumers", str(existing), "--json", url=url)
    assert done.returncode == 3, done.stderr
    found = json.loads(done.stdout)
    assert found["missing"] == [UNKNOWN]
    assert [leak["uuid"] for leak in found["leaks"]] == [LEAK, YOUNG_LEAK]
    leak = found["leaks"][0]
    assert leak["held"] == {HOST: {"VCPU": 2, "DISK_GB": 20}, SECOND: {"VCPU": 3}}
    assert (leak["type"], leak["project"], leak["user"]) == ("INSTANCE", "a-project", "a-user")
    assert leak["age_s"] > 365 * 86400 > found["leaks"][1]["age_s"]

    done = command("placement-manage", "audit", "--consumers", str(existing), url=url)
    assert "2 hold resources and do not exist." in done.stdout
    assert "DISK_GB:20, VCPU:5" in done.stdout
    assert f"1 exist and hold nothing.\n  {UNKNOWN}" in done.stdout

    existing.write_text("\n".join((ALIVE, LEAK, YOUNG_LEAK)))
    done = command("placement-manage", "audit", "--consumers", str(existing), url=url)
    assert (done.returncode, done.stderr) == (0, "")


@AT_HEAD
def test_old_leaks_are_removed_and_young_ones_stay(
    command: Command, ledger: Database, url: str, existing: Path
) -> None:
    arguments = ("audit", "--consumers", str(existing), "--remove", "--at-most", "2")
    refused = command("placement-manage", *arguments, url=url)
    assert refused.returncode == 1
    assert "give --yes" in refused.stderr
    assert len(list(audit.holders(ledger))) == 3

    done = command("placement-manage", *arguments, "--yes", url=url)
    assert done.returncode == 3, done.stderr
    assert "1 of 2 are old enough to be removed." in done.stdout
    assert "1 removed." in done.stdout
    assert [holder.uuid for holder in audit.holders(ledger)] == [ALIVE, YOUNG_LEAK]
    check = command("placement-manage", "db", "check", url=url)
    assert check.returncode == 0, check.stdout

    done = command("placement-manage", *arguments, "--yes", "--older-than", "0s", url=url)
    assert [holder.uuid for holder in audit.holders(ledger)] == [ALIVE]


LISTS = {
    "nothing": ("", "the list is empty"),
    "blank lines": ("\n  \n", "the list is empty"),
    "one page": ("\n".join(map(uuid_of, range(5))), "15 of 20 consumers"),
    "of another cloud": (UNKNOWN, "20 of 20 consumers"),
    "one in ten too few": ("\n".join(map(uuid_of, range(17))), "3 of 20 consumers"),
    "the last one cut": ("\n".join(map(uuid_of, range(20)))[:-10], "is not one uuid"),
    "one in quotes": ("\n".join([f'"{uuid_of(0)}"', *map(uuid_of, range(1, 20))]), "is not one uuid"),
}
"""Lists of less than all consumers, and what is said of them."""


@AT_HEAD
@pytest.mark.parametrize("name", LISTS)
def test_a_list_of_less_than_all_removes_nothing(
    command: Command, database: Database, url: str, tmp_path: Path, name: str
) -> None:
    """Twenty consumers hold something, and exist."""
    fill(database, 20)
    file = tmp_path / "consumers"
    listed, words = LISTS[name]
    file.write_text(listed)

    done = command(
        *("placement-manage", "audit", "--consumers", str(file)),
        *("--remove", "--yes", "--older-than", "0s"),
        url=url,
    )

    assert done.returncode == 1
    assert words in done.stderr
    assert len(list(audit.holders(database))) == 20


@AT_HEAD
def test_the_mark_of_an_encoding_and_other_spellings_make_no_leak(
    command: Command, database: Database, url: str, tmp_path: Path
) -> None:
    fill(database, 20)
    file = tmp_path / "consumers"
    listed = [uuid_of(0), uuid_of(1).upper(), uuid_of(2).replace("-", ""), *map(uuid_of, range(3, 20))]
    file.write_text("\n".join(listed), encoding="utf-8-sig")

    done = command("placement-manage", "audit", "--consumers", str(file), url=url)

    assert done.returncode == 0, done.stdout


@AT_HEAD
def test_a_tenth_is_removed_and_more_only_up_to_the_number_given(
    command: Command, database: Database, url: str, tmp_path: Path
) -> None:
    fill(database, 20)
    file = tmp_path / "consumers"
    arguments = ("placement-manage", "audit", "--consumers", str(file), "--remove", "--yes")
    arguments += ("--older-than", "0s")

    file.write_text("\n".join(map(uuid_of, range(18))))
    assert "2 removed." in command(*arguments, url=url).stdout
    file.write_text("\n".join(map(uuid_of, range(10))))
    refused = command(*arguments, "--at-most", "7", url=url)
    assert "8 are more than --at-most 7" in refused.stderr
    assert len(list(audit.holders(database))) == 18
    done = command(*arguments, "--at-most", "8", url=url)
    assert "8 removed." in done.stdout, done.stderr
    assert len(list(audit.holders(database))) == 10


@AT_HEAD
def test_a_leak_that_has_changed_since_is_left_alone(ledger: Database) -> None:
    """Between reading and removing somebody claims under the same uuid: that is no leak any more."""
    leak = next(holder for holder in audit.holders(ledger) if holder.uuid == LEAK)
    claim(ledger, LEAK, {SECOND: {"VCPU": 1}})
    assert not audit.release(ledger, leak)
    assert {holder.uuid for holder in audit.holders(ledger)} == {ALIVE, LEAK, YOUNG_LEAK}
    leak = next(holder for holder in audit.holders(ledger) if holder.uuid == LEAK)
    assert audit.release(ledger, leak)
    assert not audit.release(ledger, leak)


@AT_HEAD
def test_every_consumer_is_read_once(ledger: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_rows, "BATCH", 1)
    assert [holder.uuid for holder in audit.holders(ledger)] == [ALIVE, LEAK, YOUNG_LEAK]


@pytest.mark.parametrize(
    ("arguments", "words", "code"),
    [
        (("--consumers", "/nowhere/consumers"), "/nowhere/consumers", 1),
        ((), "one of the arguments --consumers --from-nova is required", 2),
        (("--consumers", "-", "--older-than", "soon"), "is not a time such as 90m", 2),
        (("--consumers", "-", "--at-most", "0"), "must be at least 1", 2),
    ],
)
def test_what_cannot_be_done_is_said(
    command: Command, synced: str, arguments: tuple[str, ...], words: str, code: int
) -> None:
    done = command("placement-manage", "audit", *arguments, url=synced)
    assert done.returncode == code
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@AT_HEAD
def test_the_time_of_the_audit_is_left_for_prometheus(
    command: Command, ledger: Database, url: str, existing: Path, tmp_path: Path
) -> None:
    """With what was found; a place that cannot be written is an error."""
    file = tmp_path / "placement.prom"
    before = time.time()

    arguments = ("audit", "--consumers", str(existing), "--metrics-file")
    done = command("placement-manage", *arguments, str(file), url=url)

    assert done.returncode == 3
    found = {
        sample.name: sample.value
        for family in text_string_to_metric_families(file.read_text())
        for sample in family.samples
    }
    assert before <= found.pop("placement_audit_timestamp_seconds") <= time.time()
    assert found == {"placement_audit_leaks": 2, "placement_audit_missing": 1}
    done = command("placement-manage", *arguments, str(tmp_path / "no" / "such"), url=url)
    assert done.returncode == 1
    assert "no/such" in done.stderr
