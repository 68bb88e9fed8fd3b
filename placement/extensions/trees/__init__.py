"""Whole trees of providers, with tags."""
