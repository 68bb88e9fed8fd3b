"""What requests may hold, one table of schemas by microversion per resource."""
