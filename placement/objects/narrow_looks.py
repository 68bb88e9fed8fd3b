"""Reads of less than the whole cloud, for searches during a coexistence (:mod:`placement.db.coexistence`).

Finding the changes is then the most expensive part: 35 ms of the database with 200,000 consumers, and 180 ms
after a claim. A question about one tree reads that tree, in six statements. A question whose demand no
provider meets is answered from the old cloud, after one to three statements have shown that this is still so.
"""

from contextlib import ExitStack
from functools import partial

from placement import telemetry
from placement.db import cloud_rows, tree_rows
from placement.db.change_rows import NO_LOG
from placement.db.database import Access, Database, Snapshot
from placement.objects.cloud_changes import make_records
from placement.objects.picture import Look, Picture, find_existing, unseen_in
from placement.search.cloud import Cloud
from placement.search.columns import LARGEST_AMOUNT
from placement.search.request import CandidateRequest
from placement.search.unmet import UnmetCondition, find_unmet


def look_for(picture: Picture, question: CandidateRequest) -> Look:
    """Open a cloud on which the question has the same answer as on the whole cloud."""
    if picture.is_shared:
        picture.watch.check()
        look = _look_at_tree(picture.db, question) or _look_at_unmet(picture, question)
        if look is not None:
            return look
    return picture.look(question.names)


def _look_at_tree(db: Database, question: CandidateRequest) -> Look | None:
    """Open a cloud that is the tree of a provider; return None outside a coexistence."""
    uuid = question.only_tree
    cloud = db.snapshot(partial(_read_tree, uuid=uuid)) if uuid else None
    if cloud is None:
        return None
    known = find_existing(db, unseen_in(cloud, question.names))
    return Look(cloud, known, NO_LOG, end=lambda: None)


def _read_tree(tx: Snapshot, uuid: str) -> Cloud | None:
    """Return the tree of a provider (empty if it does not exist); None if the picture must be read."""
    log, any_expired = cloud_rows.log(tx)
    # The coexistence has ended, or some allocations have expired, whose room the picture frees first.
    if log is not None or any_expired:
        return None
    cloud = Cloud()
    ids = [member.id for member in tree_rows.members(tx, uuid)]
    if ids:
        cloud.replace(make_records(tree_rows.contents(tx, ids)))
    telemetry.note_refresh("part", len(ids), len(ids))
    return cloud


def _look_at_unmet(picture: Picture, question: CandidateRequest) -> Look | None:
    """Open the old cloud if no change since can matter; otherwise return None."""
    newest = picture.look_as_it_is()
    if newest is None:
        return None
    with ExitStack() as stack:
        stack.enter_context(newest)
        lacking = find_unmet(newest.cloud, question)
        if lacking is None or picture.db.read(partial(_is_met, condition=lacking)):
            return None
        # All names are checked: a name in the old cloud may have been deleted meanwhile.
        newest.known = find_existing(picture.db, question.names)
        if newest.known != question.names:
            return None
        telemetry.note_refresh("nothing", 0, len(newest.cloud))
        # The caller ends this look.
        stack.pop_all()
        return newest


def _is_met(access: Access, condition: UnmetCondition) -> bool:
    """Return whether any provider in the database meets the condition by now."""
    if condition.traits:
        return cloud_rows.any_has_trait(access, condition.traits)
    if condition.aggregates:
        return cloud_rows.any_is_in_aggregate(access, condition.aggregates)
    assert condition.amount is not None
    name, amount = condition.amount
    # Not every database can represent a larger number.
    return amount <= LARGEST_AMOUNT and cloud_rows.any_could_hold(access, name, amount)
