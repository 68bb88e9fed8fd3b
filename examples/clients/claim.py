"""Claim a host with a client that openapi-python-client generated from docs/openapi.json.

Usage: ``python claim.py URL TOKEN``, beside the generated package ``placement_api``.
"""

import sys
import uuid

from placement_api import AuthenticatedClient
from placement_api.api.allocation_candidates import list_candidates
from placement_api.api.allocations import replace_consumer_allocations, show_consumer_allocations
from placement_api.models import ReplaceConsumerAllocationsBody

url, token = sys.argv[1:]
placement = AuthenticatedClient(url, token, auth_header_name="X-Auth-Token", prefix="")
found = list_candidates.sync(client=placement, resources="VCPU:2,MEMORY_MB:1024", limit=1)
claim = found.allocation_requests[0].to_dict() | {
    "project_id": "demo",
    "user_id": "alice",
    "consumer_generation": None,
    "consumer_type": "INSTANCE",
}
body = ReplaceConsumerAllocationsBody.from_dict(claim)
server = str(uuid.uuid4())
claimed = replace_consumer_allocations.sync_detailed(server, client=placement, body=body)
print(claimed.status_code.value)

held = show_consumer_allocations.sync(server, client=placement)
places = held.allocations.additional_properties.values()
print(held.consumer_generation, [place.resources.to_dict() for place in places])

again = replace_consumer_allocations.sync(server, client=placement, body=body)
print(again.errors[0].status, again.errors[0].code)
