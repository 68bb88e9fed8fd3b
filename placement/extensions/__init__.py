"""Everything that is served under ``/-/``, and what watches writes for it: a package for each extension."""
