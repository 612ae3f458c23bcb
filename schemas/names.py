"""Kubernetes name rules, as data and small predicates.

Source: ``k8s.io/apimachinery/pkg/util/validation/validation.go`` (DNS-1123, DNS-1035, qualified
names, label values) and Google Cloud's bucket naming page (3 to 63 characters, 222 with dots).
"""

from __future__ import annotations

import re

DNS_LABEL_MAX = 63
DNS_SUBDOMAIN_MAX = 253
LABEL_VALUE_MAX = 63

_ENDS = "start and end with a letter or digit"
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_DNS_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]|")
_QUALIFIED_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_BUCKET = re.compile(r"[a-z0-9][-a-z0-9_.]*[a-z0-9]")


def dns_label_problem(name: str, *, starts_with_letter: bool = False) -> str | None:
    """Say why a text is no DNS-1123 label (DNS-1035 where it must start with a letter), or None."""
    if len(name) > DNS_LABEL_MAX:
        return f"is {len(name)} characters long; at most {DNS_LABEL_MAX} are allowed"
    pattern, start = (
        (_DNS_1035, "a letter") if starts_with_letter else (_DNS_LABEL, "a letter or digit")
    )
    if not pattern.fullmatch(name):
        return (
            f"must be lower-case letters, digits and '-', start with {start}, "
            "end with a letter or digit"
        )
    return None


def dns_subdomain_problem(name: str) -> str | None:
    """Say why a text is no DNS-1123 subdomain (the name of most objects), or None."""
    if len(name) > DNS_SUBDOMAIN_MAX:
        return f"is {len(name)} characters long; at most {DNS_SUBDOMAIN_MAX} are allowed"
    if not _DNS_SUBDOMAIN.fullmatch(name):
        return (
            "must be lower-case letters, digits, '-' and '.', start and end with a letter or digit"
        )
    return None


def label_value_problem(value: str) -> str | None:
    """Say why a text is no label value, or None."""
    if len(value) > LABEL_VALUE_MAX:
        return f"is {len(value)} characters long; a label value has at most {LABEL_VALUE_MAX}"
    if not _LABEL_VALUE.fullmatch(value):
        return "must be letters, digits, '-', '_' and '.', and start and end with a letter or digit"
    return None


def label_key_problem(key: str) -> str | None:
    """Say why a text is no label or annotation key (``name`` or ``domain/name``), or None."""
    prefix, slash, name = key.rpartition("/")
    if slash:
        problem = dns_subdomain_problem(prefix)
        if problem:
            return f"has a prefix {prefix!r} that {problem}"
    if not name or len(name) > LABEL_VALUE_MAX or not _QUALIFIED_NAME.fullmatch(name):
        return (
            "must be 'name' or 'domain/name', the name at most 63 letters, digits, '-', '_' and '.'"
        )
    return None


def bucket_problem(bucket: str) -> str | None:
    """Say why no Cloud Storage bucket can have this name, or None.

    Source: Cloud Storage documentation, "Bucket naming".
    """
    if bucket.startswith("gs://"):
        return f"must be the bare name, without gs://: write {bucket.removeprefix('gs://').split('/')[0]!r}"
    limit = 222 if "." in bucket else 63
    if not 3 <= len(bucket) <= limit or any(len(part) > 63 for part in bucket.split(".")):
        return f"is {len(bucket)} characters long; a bucket name has 3 to {limit}"
    if not _BUCKET.fullmatch(bucket) or ".." in bucket:
        return f"must be lower-case letters, digits, '-', '_' and '.', {_ENDS}"
    if bucket.startswith("goog") or "google" in bucket:
        return "must not start with 'goog' or contain 'google'"
    if re.fullmatch(r"\d{1,3}(\.\d{1,3}){3}", bucket):
        return "must not look like an IP address"
    return None
