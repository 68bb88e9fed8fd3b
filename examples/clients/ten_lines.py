"""Claim a host for a consumer, in ten lines: ``python ten_lines.py URL TOKEN CONSUMER``; prints 204."""

import sys

from placement_api import AuthenticatedClient
from placement_api.api.allocation_candidates import list_candidates
from placement_api.api.allocations import replace_consumer_allocations
from placement_api.models import ReplaceConsumerAllocationsBody as Body

placement = AuthenticatedClient(sys.argv[1], sys.argv[2], auth_header_name="X-Auth-Token", prefix="")
found = list_candidates.sync(client=placement, resources="VCPU:2,MEMORY_MB:1024", limit=1)
owner = {"project_id": "demo", "user_id": "alice", "consumer_type": "VM", "consumer_generation": None}
body = Body.from_dict(found.allocation_requests[0].to_dict() | owner)
print(replace_consumer_allocations.sync_detailed(sys.argv[3], client=placement, body=body).status_code)
