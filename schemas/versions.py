"""Which versions of Kueue, JobSet and Kubernetes the product knows, and what each speaks.

A cluster states the versions that it runs. Each minor version has one vendored schema
(``schemas/upstream``); patch releases of a minor share it, because upstream changes a CRD in a
patch release only to mend it.

Sources: the CRDs of the releases themselves, and Kueue's ``CHANGELOG-0.15`` (v1beta2 is served
from 0.15.0) and ``CHANGELOG-0.16`` (v1beta2 is the stored version; v1beta1 is deprecated).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache


class UnknownVersionError(ValueError):
    """A version that has no vendored schema; the message lists the ones that have."""


@dataclass(frozen=True, slots=True)
class Release:
    """One vendored release of a component.

    Attributes:
        version: the release whose schema is vendored, without ``v``.
        api_version: what a generator should write for this release.
        served: every API version of the release that a manifest may use, the preferred first.
        deprecated: those of ``served`` that the API server answers with a deprecation warning.
    """

    version: str
    api_version: str
    served: tuple[str, ...]
    deprecated: tuple[str, ...] = ()

    @property
    def minor(self) -> str:
        """``0.17`` of ``0.17.0``."""
        return ".".join(self.version.split(".")[:2])


_V1BETA1, _V1BETA2 = "kueue.x-k8s.io/v1beta1", "kueue.x-k8s.io/v1beta2"
_V1ALPHA2 = "jobset.x-k8s.io/v1alpha2"

KUEUE_VERSIONS: tuple[Release, ...] = tuple(
    Release(version, _V1BETA2, (_V1BETA2, _V1BETA1), deprecated)
    for version, deprecated in (
        ("0.15.0", ()),
        ("0.16.2", (_V1BETA1,)),
        ("0.17.0", (_V1BETA1,)),
        ("0.18.3", (_V1BETA1,)),
        ("0.19.2", (_V1BETA1,)),
    )
)
JOBSET_VERSIONS: tuple[Release, ...] = tuple(
    Release(version, _V1ALPHA2, (_V1ALPHA2,)) for version in ("0.8.0", "0.10.1", "0.11.1", "0.12.0")
)
KUBERNETES_MINORS: tuple[str, ...] = ("1.32", "1.33", "1.34", "1.35", "1.36", "1.37")
"""Kubernetes minors whose core schemas are vendored; 1.32 is the first that GKE offers multi-tier
checkpointing on (``1.32.4-gke.1415000``)."""

ARGOCD_VERSION = "3.2.6"
"""The Argo CD release whose kinds are vendored; its ``v1alpha1`` API changes by additions only.
The oldest that takes what is generated: ``retry.refresh`` came with 3.2."""

RELEASES: dict[str, tuple[Release, ...]] = {"kueue": KUEUE_VERSIONS, "jobset": JOBSET_VERSIONS}

_VERSION = re.compile(r"v?(?P<minor>\d+\.\d+)(?:\.\d+)?(?:[-+].*)?")


def minor_of(version: str) -> str | None:
    """Return ``1.33`` of ``1.33.4-gke.1245000`` or ``v1.33``; None if the text is no version."""
    match = _VERSION.fullmatch(version.strip())
    return match["minor"] if match else None


def _known(releases: tuple[Release, ...]) -> str:
    return ", ".join(release.version for release in releases)


@lru_cache(maxsize=1024)
def resolve(component: str, version: str) -> Release:
    """Return the vendored release whose schema applies to ``version`` of ``kueue`` or ``jobset``.

    Patch releases of one minor share a schema: ``0.17.3`` gives the release ``0.17.0``.

    Raises:
        UnknownVersionError: no schema of that minor is vendored, or the text is no version.
    """
    releases = RELEASES[component]
    minor = minor_of(version)
    for release in releases:
        if release.minor == minor:
            return release
    title = {"kueue": "Kueue", "jobset": "JobSet"}[component]
    if minor is None:
        raise UnknownVersionError(
            f"{version!r} is not a version of {title}; write one such as {releases[-1].version} "
            f"(known: {_known(releases)})"
        )
    reason = f"{title} {version} has no vendored schema; known: {_known(releases)}"
    if component == "kueue" and minor in {"0.14", "0.13", "0.12", "0.11", "0.10"}:
        reason += ". Below 0.15 Kueue does not serve v1beta2: upgrade the cluster first"
    near = get_close_matches(minor, [release.minor for release in releases], 1, 0.7)
    raise UnknownVersionError(reason + (f"; the nearest is {near[0]}" if near else ""))


@lru_cache(maxsize=1024)
def resolve_kubernetes(version: str) -> str:
    """Return the vendored Kubernetes minor for a GKE or Kubernetes version.

    Raises:
        UnknownVersionError: that minor is not vendored, or the text is no version.
    """
    minor = minor_of(version)
    if minor in KUBERNETES_MINORS:
        return minor
    raise UnknownVersionError(
        f"Kubernetes {version} has no vendored schema; known: {', '.join(KUBERNETES_MINORS)}"
        if minor
        else f"{version!r} is not a Kubernetes or GKE version, such as 1.33.4-gke.1245000"
    )


@dataclass(frozen=True, slots=True)
class Versions:
    """The vendored schemas that judge one cluster's manifests. Make one with :meth:`of`."""

    kueue: str
    jobset: str
    kubernetes: str
    checkpointing: str = "v1"
    argocd: str = ARGOCD_VERSION

    @classmethod
    def of(cls, kueue: str = "", jobset: str = "", kubernetes: str = "") -> Versions:
        """Resolve the versions that a cluster states; an empty one means the newest vendored.

        Raises:
            UnknownVersionError: a stated version has no vendored schema.
        """
        return cls(
            kueue=resolve("kueue", kueue or KUEUE_VERSIONS[-1].version).version,
            jobset=resolve("jobset", jobset or JOBSET_VERSIONS[-1].version).version,
            kubernetes=resolve_kubernetes(kubernetes or KUBERNETES_MINORS[-1]),
        )
