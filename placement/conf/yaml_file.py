"""A file of an operator that maps names to something, in YAML: faults are told with file and line."""

from pathlib import Path
from typing import Any

import yaml


class Unusable(Exception):
    """The file cannot be used at all. The message says where and why, without a period at its end."""


def read(path: Path, meaning: str) -> tuple[dict[Any, Any], dict[str, list[int]]]:
    """Return what the file maps, and the lines of each name; of a repeated one the last counts.

    :param meaning: a clause that says what the file maps, for the message if it does not.
    :raises Unusable: it cannot be read, or is not YAML, or is not a mapping.
    """
    try:
        text = path.read_text()
        document = yaml.safe_load(text)
    except OSError as error:
        raise Unusable(f"{path} cannot be read: {error.strerror}") from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise Unusable(f"{path}:{line}: this is not YAML: {error.problem}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise Unusable(f"{path} is not YAML: {error}") from error
    if not document:
        return {}, {}
    if not isinstance(document, dict):
        raise Unusable(f"{path}:1: {meaning}; this one does not")
    root: Any = yaml.compose(text, Loader=yaml.SafeLoader)
    lines: dict[str, list[int]] = {}
    for key, _ in root.value:
        lines.setdefault(str(key.value), []).append(key.start_mark.line + 1)
    return document, lines
