"""How the compiled tree reaches clusters, and what is let pass."""

from __future__ import annotations

import datetime
import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator

from schemas.inventory.base import InventoryModel, Name, Text, fault, placeholder_in

_REPOSITORY = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s{}]+|[^\s{}:]+@[^\s{}:]+:[^\s{}]+")
_REVISION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*")
_PATH = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*(/[A-Za-z0-9_-][A-Za-z0-9_.-]*)*")


def _matching(pattern: re.Pattern[str], what: str, example: str) -> AfterValidator:
    """A text of one form; templates of Argo CD (``{{``) can stand in none of them."""

    def check(value: str) -> str:
        placeholder = placeholder_in(value)
        if placeholder:
            raise fault(f"{placeholder!r} is a placeholder from the documents", f"write a {what}")
        if not pattern.fullmatch(value):
            raise fault(f"{value!r} is no {what}", f"write one such as {example}")
        return value

    return AfterValidator(check)


class GitOps(InventoryModel):
    """What Argo CD and Flux need to know."""

    tool: Literal["argocd", "flux"] = "argocd"
    """Who syncs the cluster: ``argocd`` (objects in ``compiled/argocd/``) or ``flux`` (objects in
    the cluster's own ``flux/``)."""
    repo_url: Annotated[
        str, _matching(_REPOSITORY, "repository's URL", "https://git.example.com/team/fleet.git")
    ]
    """The Git repository that holds the compiled tree."""
    revision: Annotated[str, _matching(_REVISION, "branch or tag", "main")] = "main"
    """The branch that is synced, or a full ref such as refs/tags/v3."""
    path: Annotated[str, _matching(_PATH, "folder of the repository", "compiled")] = "compiled"
    """The folder of the compiled tree in the repository."""
    argocd_namespace: Name = "argocd"
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
