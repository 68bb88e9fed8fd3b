"""Allocation ratios with many digits are the same number on every database."""

import pytest

from tests.support.databases import KINDS
from tests.support.service import running

HOST = "11111111-1111-4111-8111-000000000001"
RATIO = 1.2345674


@pytest.mark.parametrize("kind", KINDS)
def test_a_ratio_is_read_as_it_was_written_and_so_is_its_capacity(kind: str) -> None:
    with running(kind) as service:
        body = {"name": "host", "uuid": HOST}
        assert service.request("POST", "/resource_providers", json=body).status_int == 201
        there = f"/resource_providers/{HOST}/inventories"
        record = {"total": 10_000_000, "allocation_ratio": RATIO}
        body = {"resource_provider_generation": 0, "inventories": {"VCPU": record}}
        written = service.request("PUT", there, json=body)
        assert written.json["inventories"]["VCPU"]["allocation_ratio"] == RATIO
        assert service.request("GET", there).json["inventories"] == written.json["inventories"]
        for amount, number in ((12345674, 1), (12345675, 0)):
            query = f"/allocation_candidates?resources=VCPU:{amount}"
            found = service.request("GET", query, version="1.39").json["allocation_requests"]
            assert len(found) == number
