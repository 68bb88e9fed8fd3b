"""Plans: what must move or be removed so that a goal holds, and in which order (specification 10). Pure."""
