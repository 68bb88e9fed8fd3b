"""The placing of requests on a cloud: choose, count, explain, move. Pure (specification 07, 09)."""
