"""The schemas of requests: one table by microversion per resource."""
