"""A whole cloud on this machine: Keystone, Glance, Nova with fake hypervisors, and this service.

``python -m tests.operations.cloud`` starts one, plays what happens in a cloud, and compares the ledger with
what everyone else knows.
"""
