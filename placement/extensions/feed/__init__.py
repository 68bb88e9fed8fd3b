"""Which trees have changed since a token."""
