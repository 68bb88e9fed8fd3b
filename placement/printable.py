"""Names as a log, a terminal and a shell may have them: a name from the database may have any character."""

import shlex

_IN_QUOTES = str.maketrans({"\\": "\\\\", "'": "\\'"})


def escape_unprintable(text: str) -> str:
    """Escape the characters of a line that could steer a terminal, and line breaks."""
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def escape_lines(text: str) -> str:
    """Escape the same in a text of several lines, which stay lines."""
    return "\n".join(map(escape_unprintable, text.split("\n")))


def quote_word(word: str) -> str:
    """Return a word as a shell reads it back; with unprintable characters in the form ``$'...'``.

    Three octal digits, since a shell may read more than two digits after ``\\x``.
    """
    if word.isprintable():
        return shlex.quote(word)
    parts = (
        one.translate(_IN_QUOTES)
        if one.isprintable()
        else "".join(f"\\{byte:03o}" for byte in one.encode(errors="surrogateescape"))
        for one in word
    )
    return f"$'{''.join(parts)}'"
