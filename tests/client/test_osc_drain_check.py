"""What ``openstack resource provider drain check`` makes of an answer of the service."""

from placement.client.osc.providers import are_counted_whole
from placement.client.osc.text import CountColumn
from tests.support.service import running
from tests.support.world import World


def test_counts_that_were_cut_are_not_whole() -> None:
    """A bound of ten placements ends both counts of a host with forty nodes of one."""
    question = {"changes": [], "query": "resources=VCPU:1"}
    for work_factor, whole in ((1, False), (1000, True)):
        with running("sqlite", insight__enabled=True, insight__work_factor=work_factor) as service:
            world = World(service)
            host = world.provider()
            for _ in range(40):
                world.provider(parent=host, inventory={"VCPU": 1})
            told = world.call("POST", "/-/what-if", question).json
            assert are_counted_whole(told) == whole


def test_a_count_that_was_cut_is_shown_as_a_lower_bound() -> None:
    """Programs get the number; ``complete`` is beside it."""
    cut, whole = (CountColumn({"count": 5, "complete": complete}) for complete in (False, True))

    assert (cut.human_readable(), whole.human_readable()) == ("5 or more", "5")
    assert (cut.machine_readable(), whole.machine_readable()) == (5, 5)
