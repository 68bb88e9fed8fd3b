"""Measure any Placement-compatible endpoint over HTTP: ``python -m benchmarks --help``."""
