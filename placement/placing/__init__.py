"""Where requests would go on a cloud: chosen, counted, explained and moved. Pure (specification 07, 09)."""
