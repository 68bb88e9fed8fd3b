"""The audit against Nova's own API; run by Nova's interpreter (see test_nova_suite.py)."""

import uuid

import openstack
from keystoneauth1 import session, token_endpoint
from nova.tests.functional import integrated_helpers

from placement.client.nova import Nova

RESIZED, SHELVED, DELETED, RESTORABLE = "resized", "shelved", "deleted", "restorable"


class AuditTest(integrated_helpers.ProviderUsageBaseTestCase):
    """Servers in every state that matters, on two hosts."""

    compute_driver = "fake.MediumFakeDriver"

    def setUp(self):
        super().setUp()
        self.flags(reclaim_instance_interval=3600)
        for host in ("host1", "host2"):
            self._start_compute(host)
        self.flavors = self.api.get_flavors()
        # What keystonemiddleware would say of an administrator.
        who = {"X-Auth-User": "admin", "X-Auth-Project-Id": "project", "X-Roles": "admin"}
        auth = token_endpoint.Token(self.admin_api.base_url, "token")
        cloud = openstack.connection.Connection(
            session=session.Session(auth, additional_headers=who),
            compute_endpoint_override=self.admin_api.base_url,
        )
        self.nova = Nova(cloud)

    def _boot(self, name):
        return self._create_server(name=name, networks="none", flavor_id=self.flavors[0]["id"])

    def test_who_exists_and_who_must_hold_something(self):
        """What Nova says agrees with what Placement holds, whatever became of the servers."""
        running, resized, shelved, restorable = map(
            self._boot, ("running", RESIZED, SHELVED, RESTORABLE)
        )
        self._resize_server(resized, self.flavors[1]["id"])
        self._shelve_server(shelved)
        self.api.delete_server(restorable["id"])
        self._wait_for_server_parameter(restorable, {"status": "SOFT_DELETED"})
        migration = self.get_migration_uuid_for_instance(resized["id"])

        found = dict(self.nova.consumers())

        self.assertIs(True, found[running["id"]])
        self.assertIs(True, found[resized["id"]])
        self.assertIs(False, found[shelved["id"]])
        self.assertIs(False, found[migration])
        self.assertTrue(self.nova.knows(restorable["id"]))
        for server in (running, resized, restorable):
            self.assertTrue(self._get_allocations_by_server_uuid(server["id"]))
        for must_hold in (each for each, needs in found.items() if needs):
            self.assertTrue(self._get_allocations_by_server_uuid(must_hold))

    def test_nobody_is_known_who_does_not_exist(self):
        """A uuid that Nova never gave, and that of a server which is gone."""
        gone = self._boot("gone")
        self.flags(reclaim_instance_interval=0)
        self._delete_server(gone)
        self.assertNotIn(gone["id"], dict(self.nova.consumers()))
        self.assertFalse(self.nova.knows(gone["id"]))
        self.assertFalse(self.nova.knows(str(uuid.uuid4())))
