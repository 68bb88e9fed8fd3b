"""The files for Prometheus and Grafana: accepted by their tools, and about metrics that exist."""

import json
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.support.processes import ran, require_program
from tests.support.service import running
from tests.support.world import World

ROOT = Path(__file__).resolve().parents[3]
ETC = ROOT / "etc"
RULES = ETC / "prometheus" / "placement.rules.yml"
DASHBOARD = json.loads((ETC / "grafana" / "placement.json").read_text())
HOWTO = (ROOT / "docs" / "howto" / "watch.rst").read_text()
NAME = re.compile(r"\bplacement_[a-z_]+")


def promtool(*arguments: str | Path) -> str:
    done = ran([require_program("promtool"), *arguments])
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def alerts() -> list[dict[str, Any]]:
    rules: list[dict[str, Any]] = yaml.safe_load(RULES.read_text())["groups"][0]["rules"]
    return rules


def panels() -> list[dict[str, Any]]:
    return [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


@pytest.fixture(scope="module")
def exposed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What a service says that has done a little of everything."""
    shapes = tmp_path_factory.mktemp("shapes") / "shapes.yaml"
    shapes.write_text("small: resources=VCPU:1")
    with running(
        insight__enabled=True,
        insight__shapes_file=str(shapes),
        insight__survival_interval=60,
        insight__metrics_per_provider=True,
        insight__metrics_per_consumer=True,
    ) as service:
        world = World(service)
        host = world.host(VCPU=1)
        world.set_traits(host, ["HW_NUMA_ROOT"])
        world.claim({host: {"VCPU": 1}})
        service.request("GET", "/allocation_candidates?resources=VCPU:1", version="1.39")
        text: str = service.request("GET", "/-/metrics").text
    return text


def names_of(text: str) -> set[str]:
    return {
        sample.name for family in text_string_to_metric_families(text) for sample in family.samples
    } | {family.name for family in text_string_to_metric_families(text)}


# Of gauges that are there when there is something to say, and of the file that the audit leaves.
LATER = {
    "placement_foreign_writes",
    "placement_pool_size",
    "placement_pool_in_use",
    "placement_repeats_total",
    "placement_conflicts_total",
    "placement_scrub_round_timestamp_seconds",
    "placement_audit_timestamp_seconds",
    "placement_audit_leaks",
    "placement_audit_misplaced",
}


def test_promtool_accepts_what_is_exposed(exposed: str) -> None:
    """But for one name of the exporter whose dashboards are to work."""
    done = ran([require_program("promtool"), "check", "metrics"], input=exposed)
    assert done.stderr.splitlines() == [
        'openstack_placement_resource_total non-counter metrics should not have "_total" suffix'
    ]


def test_promtool_accepts_the_configuration() -> None:
    promtool("check", "config", ETC / "prometheus" / "prometheus.yml")


def test_the_alerts_do_what_they_say() -> None:
    """promtool's own tests: when each fires, and when not."""
    tests = Path(__file__).parent / "prometheus" / "placement.rules.test.yml"
    promtool("test", "rules", tests)
    tested = {
        case["alertname"]
        for group in yaml.safe_load(tests.read_text())["tests"]
        for case in group["alert_rule_test"]
        if case.get("exp_alerts")
    }
    assert tested == {rule["alert"] for rule in alerts()}


def test_alerts_and_panels_are_about_metrics_that_exist(exposed: str) -> None:
    """A name that is mistyped would never raise an alert."""
    known = names_of(exposed) | LATER
    text = RULES.read_text() + "".join(
        target["expr"] for panel in panels() for target in panel["targets"]
    )
    used = set(NAME.findall(text.replace("placement.rules", "")))
    assert used <= known, used - known


def test_every_metric_is_in_the_reference(exposed: str) -> None:
    """The page lists what there is."""
    families = {family.name for family in text_string_to_metric_families(exposed)}
    page = (ROOT / "docs" / "reference" / "metrics.rst").read_text()
    missing = {name for name in families if name not in page}
    assert not missing
    declared = {metric for metric in LATER if metric not in page}
    assert not declared


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: str(rule["alert"]))
def test_every_alert_has_its_section(rule: dict[str, Any]) -> None:
    """Whoever is woken finds the page."""
    assert rule["annotations"]["runbook"] == f"Watch the service: {rule['alert']}"
    assert f"\n{rule['alert']}\n{'-' * len(rule['alert'])}\n" in HOWTO


def test_the_dashboard_can_be_imported() -> None:
    """What Grafana's import needs: inputs, ids of their own, a grid without overlaps."""
    inputs = {each["name"]: each for each in DASHBOARD["__inputs"]}
    assert inputs["DS_PROMETHEUS"]["pluginId"] == "prometheus"
    assert DASHBOARD["uid"] and DASHBOARD["title"] and DASHBOARD["schemaVersion"] >= 36
    assert DASHBOARD["id"] is None
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    for panel in panels():
        assert panel["type"] in {"timeseries", "stat", "bargauge"}
        assert panel["title"] and panel["description"] and panel["fieldConfig"]["defaults"]["unit"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${DS_PROMETHEUS}"}
        references = [target["refId"] for target in panel["targets"]]
        assert references and len(references) == len(set(references))
    for one, other in combinations((panel["gridPos"] for panel in DASHBOARD["panels"]), 2):
        assert (
            one["x"] + one["w"] <= other["x"]
            or other["x"] + other["w"] <= one["x"]
            or one["y"] + one["h"] <= other["y"]
            or other["y"] + other["h"] <= one["y"]
        )
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels())


def test_prometheus_understands_the_panels(tmp_path: Path) -> None:
    """Each expression, as a rule of its own."""
    rules = [
        {
            "record": f"panel:{panel['id']}:{target['refId']}",
            "expr": target["expr"].replace("$__rate_interval", "1m"),
        }
        for panel in panels()
        for target in panel["targets"]
    ]
    file = tmp_path / "panels.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    promtool("check", "rules", file)
