"""What a trial has: the token ``admin`` may do what the tutorials do, and *Outlook* is not empty."""

import re
from pathlib import Path
from urllib.parse import unquote, urlencode

import pytest
import yaml

from tests.support.service import running

ROOT = Path(__file__).parents[2]
POLICY = ROOT / "tools/trial-policy.yaml"
HOST = "a1b2c3d4-0000-4000-8000-000000000001"


@pytest.mark.parametrize(("policy", "status"), [("absent.yaml", 403), (str(POLICY), 204)])
def test_admin_may_reshape_in_a_trial(policy: str, status: int) -> None:
    inventories = {HOST: {"resource_provider_generation": 0, "inventories": {"VGPU": {"total": 8}}}}
    with running(oslo_policy__policy_file=policy) as service:
        host = {"name": "host", "uuid": HOST}
        service.request("POST", "/resource_providers", version="1.39", json=host)
        body = {"inventories": inventories, "allocations": {}}
        answer = service.request("POST", "/reshaper", version="1.39", json=body)
    assert answer.status_int == status, answer.text


def test_serve_names_the_policy_of_a_trial_which_opens_nothing_else() -> None:
    assert "tools/trial-policy.yaml" in (ROOT / "tools/serve").read_text()
    assert list(yaml.safe_load(POLICY.read_text())) == ["placement:reshaper:reshape"]


def test_a_trial_counts_the_flavors_of_the_example_cloud() -> None:
    """An empty cloud has none of their traits yet: the service starts, and counts 0."""
    examples = ROOT / "examples"
    flavors = yaml.safe_load((examples / "cloud.yaml").read_text())["flavors"]
    shapes = yaml.safe_load((examples / "shapes.yaml").read_text())
    assert shapes == {name: unquote(urlencode(it["query"])) for name, it in flavors.items()}
    for started_by in ("tools/serve", "compose.yaml"):
        assert "/examples/shapes.yaml" in (ROOT / started_by).read_text()
    named = {"insight__enabled": True, "insight__shapes_file": str(examples / "shapes.yaml")}
    with running(**named) as service:
        answer = service.request("GET", "/-/capacity?shape=*")
    assert {name: it["count"] for name, it in answer.json["shapes"].items()} == dict.fromkeys(shapes, 0)


def test_a_trial_keeps_the_history() -> None:
    """*Activity* of the explorer, and the how-to about it, have something to show."""
    for started_by in ("tools/serve", "compose.yaml"):
        text = (ROOT / started_by).read_text()
        days = re.search(r'OS_INSIGHT__HISTORY_DAYS(?::=|: ")(\d+)', text)
        assert days and int(days[1]) > 0, started_by
    assert re.search(r"^export .*OS_INSIGHT__HISTORY_DAYS", (ROOT / "tools/serve").read_text(), re.M)
