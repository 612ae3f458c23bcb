"""Name rules of Kubernetes and Cloud Storage."""

from __future__ import annotations

import pytest

from schemas.names import (
    bucket_problem,
    dns_label_problem,
    dns_subdomain_problem,
    label_key_problem,
    label_value_problem,
)


@pytest.mark.parametrize("name", ["a", "a-b", "0a", "a" * 63])
def test_labels(name: str) -> None:
    assert dns_label_problem(name) is None


@pytest.mark.parametrize("name", ["", "A", "a_b", "-a", "a-", "a.b", "a" * 64, "é", "a\n"])
def test_no_labels(name: str) -> None:
    assert dns_label_problem(name) is not None


def test_some_names_must_start_with_a_letter() -> None:
    assert dns_label_problem("0a", starts_with_letter=True) is not None
    assert dns_label_problem("a0", starts_with_letter=True) is None


@pytest.mark.parametrize(("name", "right"), [("a.b-c", True), ("a..b", False), ("a" * 254, False)])
def test_subdomains(name: str, right: bool) -> None:
    assert (dns_subdomain_problem(name) is None) is right


@pytest.mark.parametrize(
    ("value", "right"), [("", True), ("a_B.c-1", True), ("a/b", False), ("-a", False), ("a" * 64, False)]
)  # fmt: skip
def test_label_values(value: str, right: bool) -> None:
    assert (label_value_problem(value) is None) is right


@pytest.mark.parametrize(
    ("key", "right"),
    [("a", True), ("example.com/a_b", True), ("/a", False), ("a/", False), ("A.com/a", False),
     ("a/b/c", False), ("x" * 64, False)],
)  # fmt: skip
def test_label_keys(key: str, right: bool) -> None:
    assert (label_key_problem(key) is None) is right


@pytest.mark.parametrize(
    ("bucket", "right"),
    [
        ("acme-checkpoints", True), ("a_b.c1", True), ("ab", False), ("a" * 64, False), ("Acme", False),
        ("gs://acme", False), ("acme..x", False), ("-acme", False), ("acme-", False),
        ("goog-acme", False), ("my-google-bucket", False), ("10.0.0.1", False), ("a b", False),
    ],
)  # fmt: skip
def test_buckets(bucket: str, right: bool) -> None:
    assert (bucket_problem(bucket) is None) is right
