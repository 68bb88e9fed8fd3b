"""The audit against Nova's own API; run by Nova's interpreter (see test_nova_suite.py)."""

import uuid

from keystoneauth1 import adapter, session, token_endpoint
from nova.tests.functional import integrated_helpers

from placement.client.nova import Nova

RESIZED, SHELVED, DELETED, RESTORABLE = "resized", "shelved", "deleted", "restorable"


class AuditTest(integrated_helpers.ProviderUsageBaseTestCase):
    """Servers in every state that matters, on two hosts."""

    compute_driver = "fake.MediumFakeDriver"

    def setUp(self):
        super().setUp()
        self.flags(reclaim_instance_interval=3600)
        self.computes = {host: self._start_compute(host) for host in ("host1", "host2")}
        self.flavors = self.api.get_flavors()
        # What keystonemiddleware would say of an administrator.
        who = {"X-Auth-User": "admin", "X-Auth-Project-Id": "project", "X-Roles": "admin"}
        auth = token_endpoint.Token(self.admin_api.base_url, "token")
        self.nova = Nova(
            adapter.Adapter(session.Session(auth, additional_headers=who), service_type="compute")
        )

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

        found = self._found()

        self.assertIs(True, found[running["id"]].must_hold)
        self.assertIs(True, found[resized["id"]].must_hold)
        self.assertIs(False, found[shelved["id"]].must_hold)
        self.assertIs(False, found[migration].must_hold)
        self.assertTrue(self.nova.knows(restorable["id"]))
        for server in (running, resized, restorable):
            self.assertTrue(self._get_allocations_by_server_uuid(server["id"]))
        for each in (each for each in found.values() if each.must_hold):
            self.assertTrue(self._get_allocations_by_server_uuid(each.uuid))

    def test_where_a_server_may_hold_something(self):
        """On its host; anywhere while it moves; on both after an evacuation; nowhere once it has no host."""
        too_large = self._create_flavor(memory_mb=40_000)
        failed = self._create_server(
            name="failed", networks="none", flavor_id=too_large, expected_state="ERROR"
        )
        running, resized, evacuated, shelved = map(
            self._boot, ("running", RESIZED, "evacuated", SHELVED)
        )
        self._resize_server(resized, self.flavors[1]["id"])
        self._shelve_server(shelved)
        source = evacuated["OS-EXT-SRV-ATTR:host"]
        self.computes[source].stop()
        self.admin_api.put_service_force_down(self.computes[source].service_ref.uuid, True)
        self._evacuate_server(evacuated)

        found = self._found()

        self.assertEqual(frozenset(), found[failed["id"]].nodes)
        self.assertEqual(frozenset(), found[shelved["id"]].nodes)
        self.assertIsNone(found[resized["id"]].nodes)
        self.assertEqual({running["OS-EXT-SRV-ATTR:host"]}, found[running["id"]].nodes)
        self.assertEqual({"host1", "host2"}, found[evacuated["id"]].nodes)
        for server in (failed, running, evacuated, shelved):
            nodes = found[server["id"]].nodes
            held = self._get_allocations_by_server_uuid(server["id"])
            self.assertEqual({self._get_provider_uuid_by_host(node) for node in nodes}, set(held))
        for server in (failed, running, evacuated, resized):
            alone = {each.uuid: each for each in self.nova.consumers(server["id"])}
            self.assertEqual(found[server["id"]], alone[server["id"]])
            self.assertLessEqual(len(alone), 2)

    def _found(self):
        return {consumer.uuid: consumer for consumer in self.nova.consumers()}

    def test_nobody_is_known_who_does_not_exist(self):
        """A uuid that Nova never gave, and that of a server which is gone."""
        gone = self._boot("gone")
        self.flags(reclaim_instance_interval=0)
        self._delete_server(gone)
        self.assertNotIn(gone["id"], dict(self.nova.consumers()))
        self.assertFalse(self.nova.knows(gone["id"]))
        self.assertFalse(self.nova.knows(str(uuid.uuid4())))
