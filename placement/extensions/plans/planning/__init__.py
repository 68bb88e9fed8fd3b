"""Plans: what must move, or go, so that a goal holds, and in which order (specification 10). Pure."""
