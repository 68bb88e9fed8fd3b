"""Explain, capacity, what-if and survival: questions about where requests would go."""
