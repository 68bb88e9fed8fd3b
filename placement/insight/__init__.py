"""The questions of operators beside the compatible API (specification 07): paths that begin with ``/-/``."""
