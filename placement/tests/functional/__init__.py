"""Fixtures for functional tests of other projects."""
