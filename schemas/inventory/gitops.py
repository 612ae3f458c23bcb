"""How the compiled tree reaches clusters, and what is let pass."""

from __future__ import annotations

import datetime
import re
from typing import Annotated, Any

from pydantic import BeforeValidator

from schemas.inventory.base import InventoryModel, Text, fault


class GitOps(InventoryModel):
    """What Argo CD and Flux need to know."""

    repo_url: Text
    """The Git repository that holds the compiled tree."""
    revision: str = "main"
    """The branch or tag that is synced."""
    path: str = "compiled"
    """The folder of the compiled tree in the repository."""
    argocd_namespace: str = "argocd"
    """Argo CD's namespace."""


def _date(value: Any) -> Any:
    if isinstance(value, str):
        if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", value):
            raise fault(f"{value!r} is no date", "write YYYY-MM-DD")
        try:
            return datetime.date.fromisoformat(value)
        except ValueError:
            raise fault(f"{value!r} is no day of the calendar") from None
    return value


class Waiver(InventoryModel):
    """A finding that is accepted for a while."""

    rule: str
    """The rule's id."""
    resource: str
    """The resource, as findings name it (``JobSet team-a/llama-*``); ``*`` matches any text."""
    reason: Text
    """Why it is accepted."""
    owner: Text
    """Who answers for it."""
    expires: Annotated[datetime.date, BeforeValidator(_date)]
    """The last day on which it holds; after that it is an error."""
