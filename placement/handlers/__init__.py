"""One module per resource: parse the request, make one domain call, render the answer."""
