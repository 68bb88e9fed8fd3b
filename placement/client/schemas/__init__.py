"""JSON Schemas of the files that people write for the client."""
