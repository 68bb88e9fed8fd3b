"""Prometheus' text format, for gauges that are written as they are read, without holding all in memory."""


def write_head(name: str, text: str) -> str:
    """Return the two lines with which a gauge begins."""
    return f"# HELP {name} {text}\n# TYPE {name} gauge\n"


def escape(value: str) -> str:
    """Return the value of a label, escaped for quotation marks."""
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
