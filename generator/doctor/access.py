"""Why there is no access to a cluster, from what kubectl says instead of an answer."""

from __future__ import annotations

import re
from dataclasses import dataclass

_PROBLEM = re.compile(
    r"^(?:error: |(?=Unable to connect to the server: |The connection to the server "
    r"|Please enter ))(?P<text>.*)",
    re.M,
)
"""The line that holds kubectl's own sentence; what a credential plug-in writes stands before it."""
_LOG_HEADER = re.compile(r"^[IWEF]\d{4} [\d:.]+ +\d+ \S+\] ", re.M)
_GENERIC_ADVICE = ("It looks like you are trying", "To learn more about this feature")
_PAGE = re.compile(r"<!doctype html|<html", re.IGNORECASE)
_TITLE = re.compile(r"<title[^>]*>\s*(?P<title>.*?)\s*</title>", re.IGNORECASE | re.DOTALL)
_MOST = 600
"""Characters of what a plug-in writes that are passed on."""

_LIST = "kubectl config get-contexts{flag} lists what there is"
_CAUSES: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r'context "(.*)" does not exist|cannot locate context'),
        f"there is no context {{context}} in {{kubeconfig}} ({_LIST})",
    ),
    (
        re.compile(r"current-context is not set"),
        f"{{kubeconfig}} names no current context: give one with --context ({_LIST})",
    ),
    (
        re.compile(r"You must be logged in to the server"),
        "the API server does not accept the credentials of context {context} (401 Unauthorized): "
        "sign in again, such as with gcloud container clusters get-credentials, or renew the "
        "token in {kubeconfig}",
    ),
    (
        re.compile(r"exec: executable (?P<plugin>\S+) not found"),
        "the credential plug-in {plugin} of context {context} is not installed{advice}",
    ),
    (
        re.compile(r"exec: executable (?P<plugin>\S+) failed with exit code \d+"),
        "the credential plug-in {plugin} of context {context} failed{words}",
    ),
    (
        re.compile(r"getting credentials: (?P<detail>.*)"),
        "the credential plug-in of context {context} gives no credentials: {detail}{words}",
    ),
    (
        re.compile(r"^Please enter (?:Username|Password): "),
        "context {context} has no credentials in {kubeconfig}: kubectl asks for a name and a "
        "password",
    ),
)
"""Pattern of kubectl's sentence → what to say instead, tried in order; others are passed on."""


@dataclass(frozen=True, slots=True)
class Access:
    """The way to a cluster.

    Attributes:
        context: name of the context, empty for the current one.
        kubeconfig: where it is, for people.
        flag: the argument that names the kubeconfig, with a space before it; empty without one.
    """

    context: str
    kubeconfig: str
    flag: str = ""


def explained(said: str, access: Access) -> str:
    """One line that says why kubectl did not get through, and what mends it where that is known."""
    page = html_page(said)
    if page:
        return page
    found = _PROBLEM.search(said)
    if found is None:
        return _one_line(said.splitlines()[-1])
    problem = found["text"]
    for pattern, sentence in _CAUSES:
        match = pattern.search(problem)
        if match:
            return sentence.format(
                **match.groupdict(),
                context=access.context,
                kubeconfig=access.kubeconfig,
                flag=access.flag,
                words=_after_colon(_LOG_HEADER.sub("", said[: found.start()])),
                advice=_after_colon(_advice(said[found.end() :])),
            )
    return problem


def html_page(text: str) -> str:
    """What to say of an answer that is a page for people; empty for anything else."""
    if not _PAGE.search(text):
        return ""
    found = _TITLE.search(text)
    title = f" ({_one_line(found['title'])!r})" if found and found["title"] else ""
    return (
        f"the answer is an HTML page{title}: a proxy or a login page stands where the kubeconfig "
        "says that the API server is"
    )


def _advice(text: str) -> str:
    """The install hint of the kubeconfig, without what kubectl says of every plug-in."""
    paragraphs = text.strip().split("\n\n")
    return "\n".join(part for part in paragraphs if not part.startswith(_GENERIC_ADVICE))


def _after_colon(text: str) -> str:
    line = _one_line(text)
    return f": {line}" if line else ""


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MOST else f"{line[:_MOST]}…"
