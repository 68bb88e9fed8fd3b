"""The schemas of requests: one table by microversion for each resource."""
