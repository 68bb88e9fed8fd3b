"""Histories of many clients over HTTP, checked for linearizability; ``python -m tests.proofs.histories``."""
