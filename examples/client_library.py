"""From a cloud of clouds.yaml to a claim: ``python examples/client_library.py CLOUD``."""

import sys
import uuid

import openstack

from placement.client.report import ReportClient

service = openstack.connect(cloud=sys.argv[1]).placement

# A host and what it has. The tree is a value, changed here and then written as a whole.
client = ReportClient(service)
host = str(uuid.uuid4())
tree = client.get_provider_tree_and_ensure_root(None, host, name=f"host-{host}")
tree.update_inventory(host, {"VCPU": {"total": 8}, "MEMORY_MB": {"total": 4096}})
client.update_from_provider_tree(None, tree)

# Who could take a server? The first of them gets it.
wanted = "/allocation_candidates?resources=VCPU:2,MEMORY_MB:1024&limit=1"
found = service.get(wanted, microversion="1.39").json()
claim = found["allocation_requests"][0] | {
    "project_id": "demo",
    "user_id": "alice",
    "consumer_type": "INSTANCE",
    "consumer_generation": None,
}
server = f"/allocations/{uuid.uuid4()}"
print(service.put(server, json=claim, microversion="1.39").status_code)

# Once more, as if the server were new: the error says what to do.
(error,) = service.put(server, json=claim, microversion="1.39").json()["errors"]
print(error["status"], error["reason"], error["retry"])
