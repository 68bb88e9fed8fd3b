"""What ``tools/serve`` starts for a trial lets the token ``admin`` do what the tutorials do."""

from pathlib import Path

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
