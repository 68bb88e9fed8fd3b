"""Histories of many clients over HTTP, checked for linearizability."""
