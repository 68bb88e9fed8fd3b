"""Placement: it records what a cloud has and who uses it, and finds the hosts that can take a request now."""
