"""A YAML mapping that an operator writes; each fault is reported with file and line."""

from pathlib import Path
from typing import Any

import yaml


class Unusable(Exception):
    """The file cannot be used at all.

    The message gives the place and the reason, without a period at its end.
    """


def read(path: Path, meaning: str) -> tuple[dict[Any, Any], dict[str, list[int]]]:
    """Return the mapping, and the lines of each name; the last of repeated names counts.

    :param meaning: a clause that says what the file maps, for the message if it does not.
    :raises Unusable: the file cannot be read, or is not YAML, or is not a mapping.
    """
    try:
        text = path.read_text()
        document = yaml.safe_load(text)
    except (OSError, yaml.YAMLError, ValueError, RecursionError) as error:
        raise Unusable(_explain(path, error)) from error
    if not document:
        return {}, {}
    if not isinstance(document, dict):
        raise Unusable(f"{path}:1: {meaning}; this one does not")
    root: Any = yaml.compose(text, Loader=yaml.SafeLoader)
    lines: dict[str, list[int]] = {}
    for key, _ in root.value:
        lines.setdefault(str(key.value), []).append(key.start_mark.line + 1)
    return document, lines


def _explain(path: Path, error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{path} cannot be read: {error.strerror}"
    if isinstance(error, yaml.MarkedYAMLError):
        line, words = _find_mark(error)
        return f"{path}:{line}: this is not YAML: {words}"
    if isinstance(error, yaml.reader.ReaderError):
        line = path.read_text().count("\n", 0, error.position) + 1
        return f"{path}:{line}: this is not YAML: a control character is not allowed"
    if isinstance(error, UnicodeDecodeError):
        return explain_undecodable(path, error)
    return f"{path} is not YAML: {error}"


def explain_undecodable(path: Path | str, error: UnicodeDecodeError) -> str:
    """Return which line of a file is not UTF-8; the error is of the decoding of the whole file."""
    line = error.object.count(b"\n", 0, error.start) + 1
    return f"{path}:{line}: this is not UTF-8"


def _find_mark(error: yaml.MarkedYAMLError) -> tuple[int, str]:
    """Return the line and text of an error; for an unclosed construct, the line where it begins."""
    mark, words = error.problem_mark, error.problem or ""
    if error.context_mark and ("end of stream" in words or "stream end" in words):
        mark, words = error.context_mark, f"{error.context}, {words}"
    return (mark.line + 1 if mark else 1), words
