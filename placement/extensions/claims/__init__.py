"""Claims decided here: gangs, groups and holds (specification 09)."""
