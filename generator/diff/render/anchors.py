"""Anchors by which a comment links into the HTML page."""

from __future__ import annotations

import hashlib

from generator.diff.model import Change


def anchor(change: Change) -> str:
    """Return a short id that depends only on the change's identity, safe in any link."""
    digest = hashlib.sha256(f"{change.verb} {change.id}".encode("utf-8", "backslashreplace"))
    return f"c-{digest.hexdigest()[:12]}"
