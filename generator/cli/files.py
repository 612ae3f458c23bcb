"""Writing a handful of new files, as ``init``, ``import`` and ``bootstrap -o`` do."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path


def write_files(folder: Path, files: Mapping[str, str]) -> bool:
    """Write files below a folder; False, and one line, at the first that cannot be written.

    Nothing is printed in between: a reader of the output that goes away must not leave half a tree.
    """
    for path, text in files.items():
        target = folder / path
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        except OSError as error:
            # A full disk is told without a name.
            place = error.filename or target
            print(f"error: cannot write {place}: {error.strerror}", file=sys.stderr)
            return False
    return True
