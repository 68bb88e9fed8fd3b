"""Completion of the commands' words in bash and zsh, read from what each says with ``--help``.

The option ``--shell_completion`` of oslo.config is there in every ``placement-manage`` and
``placement-status``, but the library looks for its templates where it does not install them.
"""

import contextlib
import importlib
import io
import os
import re
import sys
from collections.abc import Iterator, Sequence

OPTION = "--shell_completion"
SHELLS = ("bash", "zsh")
MODULES = {
    "placement-api": "api",
    "placement-manage": "manage",
    "placement-status": "status",
    "placement-compare": "compare",
    "placement-tree": "tree",
    "placement-migrate-compute-inventory": "migrate_inventory",
}
"""Every command and its module in ``placement.cmd``."""

_ZSH = "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n"
_FUNCTION = """\
{name}() {{
    local word place=
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case "$place $word" in
            {places}) place="$place $word" ;;
        esac
    done
    case "$place ${{COMP_WORDS[COMP_CWORD-1]}}" in
{choices}
    esac
    case "$place" in
{words}
    esac
    COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F {name} {program}
"""


def asked(argv: Sequence[str]) -> str | None:
    """Return the shell for which a command line asks for completion."""
    if len(argv) == 2 and argv[0] == OPTION and argv[1] in SHELLS:
        return argv[1]
    return None


def show(shell: str) -> int:
    """Print a script for the shell that completes all commands."""
    print(script(shell), end="")
    return 0


def script(shell: str) -> str:
    """Return a script for ``bash`` or ``zsh`` that completes all commands."""
    return (_ZSH if shell == "zsh" else "") + "".join(map(_function, MODULES))


def _function(program: str) -> str:
    helps = dict(_walk(program, ()))
    words, choices = [], []
    for place, text in helps.items():
        shown = "".join(f" {word}" for word in place)
        words.append(f'        "{shown}") words="{" ".join(_words(text))}" ;;')
        for option, values in _values(text):
            words_of = " ".join(values)
            choices.append(
                f'        "{shown} {option}") COMPREPLY=($(compgen -W "{words_of}" -- '
                '"${COMP_WORDS[COMP_CWORD]}")); return ;;'
            )
    places = "|".join(f'" {" ".join(place)}"' for place in helps if place) or '" "'
    return _FUNCTION.format(
        name="_" + program.replace("-", "_"),
        program=program,
        places=places,
        choices="\n".join(choices),
        words="\n".join(words),
    )


def _walk(program: str, place: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield each sequence of sub-commands with its help."""
    text = _help(program, place)
    yield place, text
    for word in _subcommands(text):
        yield from _walk(program, (*place, word))


def _help(program: str, place: tuple[str, ...]) -> str:
    module = importlib.import_module(f"placement.cmd.{MODULES[program]}")
    before, columns = sys.argv, os.environ.get("COLUMNS")
    sys.argv = [program, *place, "--help"]
    os.environ["COLUMNS"] = "1000"
    try:
        with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.suppress(SystemExit):
            module.main()
    finally:
        sys.argv = before
        os.environ.pop("COLUMNS")
        if columns is not None:
            os.environ["COLUMNS"] = columns
    return said.getvalue()


def _subcommands(text: str) -> list[str]:
    """Return what may follow ``{…} ...`` in the usage."""
    usage = text.partition("\n\n")[0]
    found = re.search(r" \{([^}]+)\} \.\.\.", usage)
    return found[1].split(",") if found else []


def _words(text: str) -> list[str]:
    """Return the options and the choices of arguments that a help names."""
    listed = [line[2:].partition("  ")[0] for line in text.splitlines() if line[:3] == "  -"]
    options = {word for line in listed for word in re.findall(r"(?:^|(?<=\s))--?[\w-]+", line)}
    arguments = re.findall(r"^  \{([^}]+)\}", text, re.M)
    return [*",".join(arguments).split(","), *sorted(options)]


def _values(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each option that takes one of few values, with them."""
    for option, values in re.findall(r"^  (?:-\w, )?(--[\w-]+) \{([^}]+)\}", text, re.M):
        yield option, values.split(",")
