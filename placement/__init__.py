"""Placement: what a cloud has, who uses it, and which hosts could take a request right now."""
