"""The line of slow requests (specification 07 section 6)."""

import logging
from contextlib import ExitStack
from itertools import count

import pytest
import webob

from placement import telemetry
from placement.web.observation import hide_values, make_slow_request_watcher, observe_requests
from tests.support.service import Service, running


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("resources=VCPU:4,MEMORY_MB:1024&limit=10", "resources=VCPU:4,MEMORY_MB:1024&limit=10"),
        (
            "resources_NET1=SRIOV_NET_VF:1&required1=!HW_X",
            "resources_NET1=SRIOV_NET_VF:1&required1=!HW_X",
        ),
        (
            "required=in:HW_X,HW_Y&group_policy=isolate",
            "required=in:HW_X,HW_Y&group_policy=isolate",
        ),
        ("resources=VCPU%3A4", "resources=VCPU:4"),
        ("name=my%20secret&in_tree=1f000000-0000-4000-8000-000000000001", "name=…&in_tree=…"),
        ("resources=VCPU:4%0aforged&resourcesful=X:1", "resources=…&resourcesful=…"),
        ("%0aforged=1&&", "…&…&…"),
    ],
)
def test_a_shape_has_names_and_amounts_and_nothing_else(query: str, shown: str) -> None:
    """What a client may write freely could name people, or begin a line of its own."""
    assert hide_values(query) == shown


def test_a_shape_is_short_whatever_is_asked() -> None:
    assert len(hide_values("&".join(["resources=VCPU:1"] * 10_000))) < 1100


@pytest.mark.parametrize("profiled", [False, True])
def test_a_slow_request_leaves_one_line(profiled: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Request id, route, shape, stages, statements, repeats; with the profiler around it and without."""
    slow = {"api__slow_request_s": 1e-9}
    if profiled:
        slow |= {"profiler__enabled": True, "profiler__hmac_keys": "SECRET"}
    with running() as made, ExitStack() as stack:
        for name, value in slow.items():
            group, option = name.split("__")
            made.conf.set_override(option, value, group=group)
            # All configurations of a process share the profiler's group: others would be profiled too.
            stack.callback(made.conf.clear_override, option, group=group)
        service = Service(made.conf, made.db)
        with caplog.at_level(logging.WARNING):
            query = "resources=VCPU:1&in_tree=1f000000-0000-4000-8000-000000000001"
            answer = service.request("GET", f"/allocation_candidates?{query}", version="1.39")
        unparsed = webob.Request.blank("/traits")
        del unparsed.environ["REQUEST_METHOD"]
        assert unparsed.call_application(service.application)[0] == "400 Bad Request"

    (line,) = [r.getMessage() for r in caplog.records if "Slow request" in r.getMessage()]
    assert answer.headers["x-openstack-request-id"] in line
    assert "GET /allocation_candidates?resources=VCPU:1&in_tree=… took " in line
    assert "status 200; freshness " in line and "filter " in line
    assert ", 0 repeats" in line and " statements" in line


def test_the_line_is_made_of_what_was_noted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Seconds of each stage, then counts with their causes; nothing of a figure that is for metrics only."""
    # The clock goes on by half a second each time it is read.
    monkeypatch.setattr(telemetry, "perf_counter", count(step=0.5).__next__)
    trace = telemetry.begin()
    telemetry.note_search()
    for stage in ("freshness", "filter", "filter"):
        telemetry.note_stage(stage)
    for cause in ("stale", "conflict", "stale"):
        telemetry.REPEATS.count(cause)
    telemetry.STATEMENTS.count()
    telemetry.WRITE_ATTEMPTS.count()
    telemetry.PROVIDERS_HELD_SECONDS.observe(9)
    telemetry.end()

    make_slow_request_watcher(0)({"REQUEST_METHOD": "PUT"}, trace, 1.5)

    assert caplog.messages == [
        "Slow request: - PUT none took 1.500 s, status 500; "
        "freshness 0.500 s, filter 1.000 s, 1 statements, 3 repeats (conflict, stale)"
    ]


def test_by_default_there_is_no_line(caplog: pytest.LogCaptureFixture) -> None:
    with running() as service, caplog.at_level(logging.WARNING):
        service.request("GET", "/resource_providers")
    assert not [record for record in caplog.records if "Slow" in record.getMessage()]


def test_a_request_that_waited_as_its_client_wished_was_not_slow() -> None:
    """As one that waits for a change: that time is no part of its seconds."""
    told: list[float] = []

    def application(_environ: object, _start_response: object) -> list[bytes]:
        telemetry.note_idle(1000)
        return []

    observed = observe_requests(application, [lambda _environ, _trace, seconds: told.append(seconds)])
    observed({}, None)
    assert told[0] < 0
