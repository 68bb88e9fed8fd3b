"""Plans: what must move or be removed so that a goal holds (specification 10)."""
