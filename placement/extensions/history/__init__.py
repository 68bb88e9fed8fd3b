"""The history: who wrote what, and the previous state."""
