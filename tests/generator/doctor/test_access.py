"""Why there is no cluster to ask, in one line: kubectl's own words are those of kubectl 1.36.3."""

from __future__ import annotations

import pytest

from generator.doctor.access import Access, explained, html_page

ACCESS = Access("prod", "/home/ada/kubeconfig", " --kubeconfig=/home/ada/kubeconfig")
CONTEXTS = "kubectl config get-contexts --kubeconfig=/home/ada/kubeconfig lists what there is"
PAGE = "<!DOCTYPE html>\n<html><head><title> Sign\n in </title></head><body>…</body></html>"
CONNECT = "Unable to connect to the server: "
GENERIC = """

It looks like you are trying to use a client-go credential plugin that is not installed.

To learn more about this feature, consult the documentation available at:
      https://kubernetes.io/docs/reference/access-authn-authz/authentication/
"""


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (
            'error: context "prod" does not exist',
            f"there is no context prod in /home/ada/kubeconfig ({CONTEXTS})",
        ),
        (
            "error: cannot locate context prod",
            f"there is no context prod in /home/ada/kubeconfig ({CONTEXTS})",
        ),
        (
            "error: current-context is not set",
            f"/home/ada/kubeconfig names no current context: give one with --context ({CONTEXTS})",
        ),
        (
            "error: You must be logged in to the server (Unauthorized)",
            "the API server does not accept the credentials of context prod (401 Unauthorized): "
            "sign in again, such as with gcloud container clusters get-credentials, or renew the "
            "token in /home/ada/kubeconfig",
        ),
        (
            "Please enter Username: error: EOF",
            "context prod has no credentials in /home/ada/kubeconfig: kubectl asks for a name and "
            "a password",
        ),
        (
            f"{CONNECT}getting credentials: exec: executable no-plugin not found{GENERIC}\n"
            "Install no-plugin by following\nhttps://example.com/install",
            "the credential plug-in no-plugin of context prod is not installed: Install no-plugin "
            "by following https://example.com/install",
        ),
        (
            f"{CONNECT}getting credentials: exec: executable no-plugin not found{GENERIC}",
            "the credential plug-in no-plugin of context prod is not installed",
        ),
        (
            "F1130 16:08:55.504058    3432 cred.go:145] ERROR: Reauthentication failed.\n"
            "Please run:\n  $ gcloud auth login\n"
            f"{CONNECT}getting credentials: exec: executable plugin failed with exit code 1",
            "the credential plug-in plugin of context prod failed: ERROR: Reauthentication failed. "
            "Please run: $ gcloud auth login",
        ),
        (
            f"{CONNECT}getting credentials: exec: executable plugin failed with exit code 1",
            "the credential plug-in plugin of context prod failed",
        ),
        (
            f"{CONNECT}getting credentials: decoding stdout: couldn't get version/kind",
            "the credential plug-in of context prod gives no credentials: decoding stdout: "
            "couldn't get version/kind",
        ),
        (
            f"{CONNECT}context deadline exceeded",
            f"{CONNECT}context deadline exceeded",
        ),
        (
            'error: error loading config file "x": yaml: not allowed in this context',
            'error loading config file "x": yaml: not allowed in this context',
        ),
        (
            "W1130 16:08:55.504058 3432 x.go:1] old\nThe connection to the server 127.0.0.1:9 was "
            "refused - did you specify the right host or port?",
            "The connection to the server 127.0.0.1:9 was refused - did you specify the right host "
            "or port?",
        ),
        ("something\nnew", "new"),
        (
            f"Error from server (Forbidden): {PAGE}",
            "the answer is an HTML page ('Sign in'): a proxy or a login page stands where the "
            "kubeconfig says that the API server is",
        ),
    ],
)
def test_what_kubectl_says_becomes_one_line_with_what_mends_it(said: str, expected: str) -> None:
    assert explained(said, ACCESS) == expected


def test_what_a_plug_in_writes_is_cut_where_it_does_not_end() -> None:
    said = (
        "x" * 5000 + f"\n{CONNECT}getting credentials: exec: executable p failed with exit code 1"
    )
    assert len(explained(said, ACCESS)) < 700


@pytest.mark.parametrize("text", [PAGE, PAGE.lower(), PAGE.replace("<!DOCTYPE html>", "")])
def test_a_page_for_people_is_told_by_its_title(text: str) -> None:
    assert html_page(text).lower().startswith("the answer is an html page ('sign in'): ")


def test_a_page_without_a_title_is_one_all_the_same() -> None:
    assert html_page("<html></html>").startswith("the answer is an HTML page: ")
    assert html_page('{"kind": "Status"}') == ""
