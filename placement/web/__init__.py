"""HTTP: the pipeline, the URL map, and how input and errors are read and written."""
