"""Plans: what must move, or go, so that a goal holds (specification 10)."""
