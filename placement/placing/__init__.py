"""The placing of requests on a cloud: chosen, counted, explained and moved. Pure (specification 07, 09)."""
