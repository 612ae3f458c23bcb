"""A bash script put together from words, never from text that is taken for code.

Every argument goes through ``shlex.quote``; only lines that stand in this package's source are
written as they are.
"""

from __future__ import annotations

import shlex
from functools import lru_cache

_OPTIONS = "set -euo pipefail\n"
_PLAN = 'PLAN="${PLAN:-}"\n'
_HERE = 'here="$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)"\n'
_STEP = """\
step() { printf '\\n== %s\\n' "$1"; }
"""
_RUN = """\
# Prints a command that changes something, and runs it unless PLAN is set.
run() {
  printf '+'
  printf ' %q' "$@"
  printf '\\n'
  if [[ -z "$PLAN" ]]; then "$@"; fi
}
"""
_EXPECT = """\
# Ends the script unless a fact is as it must be: what, wanted, found.
expect() {
  if [[ "$3" == "$2" ]]; then
    printf 'ok: %s is %s\\n' "$1" "$2"
  elif [[ -n "$PLAN" ]]; then
    printf 'not yet: %s is "%s", to be "%s"\\n' "$1" "$3" "$2"
  else
    printf 'error: %s is "%s", expected "%s"\\n' "$1" "$3" "$2" >&2
    exit 1
  fi
}
"""
_PARTS = (
    (_HERE, '"$here"'),
    ("\n" + _STEP, "step "),
    ("\n" + _RUN, "run "),
    ("\n" + _EXPECT, "expect "),
)
"""What a script may need, and the word by which it is seen that it does."""


class Script:
    """A script in the making.

    Args:
        title: what it does, in one line.
        notes: further lines of the comment on top.
    """

    def __init__(self, title: str, *notes: str) -> None:
        self._title = [title, *notes]
        self._functions: list[str] = []
        self._body: list[str] = []

    @staticmethod
    def quoted(*words: str) -> str:
        """A command on one line, each word quoted; a word of :meth:`beside` is kept."""
        return " ".join(map(_word, words))

    @staticmethod
    def beside(path: str) -> str:
        """A path beside the script, to be used as a word of a command."""
        return f"\0{path}"

    def function(self, name: str, what: str, *lines: str) -> None:
        """Declare a function; its lines are code."""
        body = "".join(f"  {line}\n" for line in lines)
        self._functions.append(f"# Prints {what}.\n{name}() {{\n{body}}}\n")

    def step(self, title: str, *notes: str) -> None:
        """Begin a step."""
        self._body += ["", *(f"# {note}" for note in notes), f"step {_word(title)}"]

    def comment(self, text: str) -> None:
        """Write a comment of one line."""
        self._body.append(f"# {text}")

    def lines(self, *lines: str) -> None:
        """Write lines of code as they are."""
        self._body += lines

    def command(self, *words: str) -> None:
        """Write a command on one line."""
        self._body.append(self.quoted(*words))

    def run(self, *words: str, indent: str = "") -> None:
        """Write a command that changes something, an option a line."""
        self._body += _folded(("run", *words), indent)

    def capture(self, variable: str, *words: str, indent: str = "") -> None:
        """Keep what a command prints in a variable; its failure ends the script."""
        self._body.append(f'{indent}{variable}="$({self.quoted(*words)})"')

    def when(self, condition: str, *words: str, note: str = "") -> None:
        """Run a command if a condition, which is code, holds."""
        self._body.append(f"if {condition}; then")
        if note:
            self._body.append(f"  # {note}")
        self._body += [*_folded(("run", *words), "  "), "fi"]

    def expect(self, what: str, wanted: str, found: str = '"$found"') -> None:
        """End the script unless a fact, which is code, is as it must be."""
        self._body.append(f"expect {self.quoted(what, wanted)} {found}")

    def text(self) -> str:
        """The script."""
        title = "".join(f"# {line}\n" if line else "#\n" for line in self._title)
        functions = "".join("\n" + function for function in self._functions)
        body = "\n".join(self._body) + "\n"
        used = "".join(part for part, sign in _PARTS if sign in functions + body)
        return f"#!/usr/bin/env bash\n{title}{_OPTIONS}\n{_PLAN}{used}{functions}{body}"


@lru_cache(maxsize=8192)
def _word(word: str) -> str:
    if word.startswith("\0"):
        return f'"$here"/{shlex.quote(word[1:])}'
    return shlex.quote(word)


def _folded(words: tuple[str, ...], indent: str) -> list[str]:
    """A command with its options on lines of their own."""
    heads: list[str] = []
    options: list[str] = []
    for word in words:
        if word.startswith("--"):
            options.append(f"{indent}  {_word(word)}")
        else:
            heads.append(_word(word))
    lines = [f"{indent}{' '.join(heads)}", *options]
    return [*(line + " \\" for line in lines[:-1]), lines[-1]]
