"""Buckets of the backups, as the bootstrap creates them."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

from schemas.inventory.base import InventoryModel, Name, fault, placeholder_in

_LOCATION = re.compile(r"[A-Za-z]+(-[a-z]+[0-9]+)?|[A-Z]+[0-9]*")


def _location(value: str) -> str:
    if placeholder_in(value):
        raise fault(f"{value!r} is a placeholder from the documents", "write a region")
    if not _LOCATION.fullmatch(value):
        raise fault(
            f"{value!r} is no location of a bucket", "write a region such as us-east5, or US, EU"
        )
    return value


def _soft_delete(days: int) -> int:
    if days not in (0, *range(7, 91)):
        raise fault(
            f"soft delete of {days} days does not exist: it is off (0), or 7 to 90 days",
            "write 0, or at least 7",
        )
    return days


class BucketSettings(InventoryModel):
    """How the bootstrap makes a bucket, always with a hierarchical namespace and uniform access."""

    location: Annotated[str, AfterValidator(_location)] | None = None
    """Its region; the cluster's unless given. It cannot be changed later."""
    created_by: Name | None = None
    """The cluster whose bootstrap creates it, where several share it; the others only check it."""
    soft_delete_days: Annotated[int, AfterValidator(_soft_delete)] = 0
    """Days for which deleted backups can be brought back, and are paid for: 0, or 7 to 90."""
