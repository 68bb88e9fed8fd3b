"""What ``openstack resource provider drain check`` makes of an answer of the service."""

from placement.client.osc.providers import are_counted_whole
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
