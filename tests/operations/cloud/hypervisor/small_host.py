"""The hypervisor of each host of the cloud; loaded by nova-compute, in Nova's environment.

Nova's own fake driver, but small, and with a node whose name is not that of the service's host: the provider
has the node's name, and Nova's commands take the host's.
"""

import nova.conf
from nova.virt import fake, node


class Host(fake.FakeDriverWithoutFakeNodes):
    """Eight processors, no more than that, and servers that arrive when they are moved."""

    vcpus = 8
    memory_mb = 8192
    local_gb = 100
    capabilities = dict(fake.FakeDriver.capabilities, supports_migrate_to_same_host=False)

    def init_host(self, host):
        """Name the node after the host, but otherwise."""
        super().init_host(host)
        self._set_nodes([node_of(host)])

    def post_live_migration(self, context, instance, block_device_info, migrate_data=None):
        """Forget a server that has left: else it could not be evacuated to here later."""
        self.destroy(context, instance, None, block_device_info)

    def get_nodenames_by_uuid(self, refresh=False):
        """Return the one node; asked for before ``init_host`` has named it."""
        return {node.get_local_node_uuid(): node_of(nova.conf.CONF.host)}


def node_of(host):
    """Return the name of the hypervisor of a service's host."""
    return f"{host}.node.example"
