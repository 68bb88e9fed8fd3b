"""What operators ask beside the compatible API (specification 07): the paths that begin with ``/-/``."""
