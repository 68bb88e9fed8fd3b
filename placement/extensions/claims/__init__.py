"""Claims for which the service chooses the places: gangs, groups and holds (specification 09)."""
