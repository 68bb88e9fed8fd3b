"""Eight servers on eight hosts, or none: ``python examples/claim_eight.py CLOUD``."""

import sys
import uuid

import openstack

from placement.client.claims import ClaimsClient, NewClaim, NoCandidate

claims = ClaimsClient(openstack.connect(cloud=sys.argv[1]).placement)
wanted = "resources=VCPU:2,MEMORY_MB:1024"
gang = [
    NewClaim(str(uuid.uuid4()), wanted, "demo", "alice", groups=["web"])  # of type INSTANCE
    for _ in range(8)
]
try:
    placed = claims.claim(gang, groups={"web": {"rule": "apart"}}, hold_s=300)
except NoCandidate as refused:
    print("nothing was claimed;", "it cannot fit" if refused.exact else "it may fit")
    print("kept apart by:", *refused.groups)
    for step in refused.explanation["steps"]:
        test = f"{step['test']} {step['subject'] or ''}".strip()
        print(f"{test}: {step['left']} of {step['before']} {step['unit']} left")
    sys.exit(1)

hosts = {each["root_provider_uuid"] for each in placed.claims}
print(f"{len(placed.claims)} servers on {len(hosts)} hosts, held for five minutes")

# Here the servers are built. Was one not, claims.release(consumer_uuid) gives its room back.
claims.confirm(placed.generations)
print("held now:", len(list(claims.holds(group="web"))))
