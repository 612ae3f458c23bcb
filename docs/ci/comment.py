#!/usr/bin/env python3
"""Post the diff as a comment on a pull or merge request, and renew the same comment later.

    python3 comment.py diff.md

Runs in GitHub Actions and in GitLab CI, with nothing but the standard library. A later run finds
its comment by the marker on the first line, among comments of the same account only, so that nobody
else's comment is ever overwritten.

GitHub (environment of the job): GITHUB_API_URL, GITHUB_REPOSITORY, PULL_REQUEST (the number),
GITHUB_TOKEN with ``pull-requests: write``; COMMENT_AUTHOR, by default ``github-actions[bot]``.

GitLab: CI_API_V4_URL, CI_PROJECT_ID, CI_MERGE_REQUEST_IID, GITLAB_TOKEN (a project access token
with scope ``api``).

Exit status: 0 posted, renewed, or nothing to do; 1 refused by the server; 2 wrong usage.
"""

from __future__ import annotations

import json
import os
import re
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MARKER = re.compile(r"<!-- [a-z-]+:v\d+ -->")
PER_PAGE = 100
MAX_PAGES = 50
TIMEOUT_S = 30


class CommentError(Exception):
    """The comment cannot be posted; the message says why."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect could carry the token to another host."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


@dataclass(frozen=True)
class Host:
    """Where the comments live.

    Attributes:
        comments: address of the list of comments, also where a new one is posted.
        one: address of one comment, with ``{id}`` in it.
        method: how a comment is renewed.
        headers: with the token.
        author: the account whose comments count.
    """

    comments: str
    one: str
    method: str
    headers: dict[str, str]
    author: str

    def mine(self, comment: dict[str, Any]) -> bool:
        """Whether the comment was written by this account."""
        user = comment.get("user") or comment.get("author") or {}
        return self.author in (user.get("login"), user.get("username"))


def _need(*names: str) -> list[str]:
    missing = [name for name in names if not os.environ.get(name)]
    if missing:
        raise CommentError(f"not set: {', '.join(missing)}")
    return [os.environ[name] for name in names]


def _safe(address: str) -> str:
    """Return the address of an API, refusing to send a token in clear over a network."""
    parts = urllib.parse.urlsplit(address)
    loopback = parts.hostname in ("127.0.0.1", "localhost", "::1")
    if parts.scheme != "https" and not (parts.scheme == "http" and loopback):
        raise CommentError(f"{parts.scheme or 'no'} scheme in {address!r}; https is needed")
    return address.rstrip("/")


def host() -> Host:
    """Read from the environment where to post.

    Raises:
        CommentError: a variable is missing, or the address is not safe.
    """
    if os.environ.get("GITHUB_ACTIONS"):
        api, repository, number, token = _need(
            "GITHUB_API_URL", "GITHUB_REPOSITORY", "PULL_REQUEST", "GITHUB_TOKEN"
        )
        if not number.isdecimal() or not re.fullmatch(r"[\w.-]+/[\w.-]+", repository):
            raise CommentError("PULL_REQUEST or GITHUB_REPOSITORY is malformed")
        base = f"{_safe(api)}/repos/{repository}/issues"
        return Host(
            f"{base}/{number}/comments",
            f"{base}/comments/{{id}}",
            "PATCH",
            {"Authorization": f"Bearer {token}", "Accept": "application/vnd.github+json"},
            os.environ.get("COMMENT_AUTHOR") or "github-actions[bot]",
        )
    api, project, number, token = _need(
        "CI_API_V4_URL", "CI_PROJECT_ID", "CI_MERGE_REQUEST_IID", "GITLAB_TOKEN"
    )
    if not number.isdecimal() or not project.isdecimal():
        raise CommentError("CI_PROJECT_ID or CI_MERGE_REQUEST_IID is malformed")
    headers = {"PRIVATE-TOKEN": token}
    api = _safe(api)
    me, _ = _call("GET", f"{api}/user", headers)
    notes = f"{api}/projects/{project}/merge_requests/{number}/notes"
    return Host(notes, f"{notes}/{{id}}", "PUT", headers, str(me["username"]))


def _call(
    method: str, address: str, headers: dict[str, str], body: dict[str, str] | None = None
) -> tuple[Any, int]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address, data, method=method)
    for name, value in headers.items():
        request.add_unredirected_header(name, value)
    request.add_header("Content-Type", "application/json")
    opener = urllib.request.build_opener(_NoRedirect)
    try:
        with opener.open(request, timeout=TIMEOUT_S) as answer:
            return json.load(answer), answer.status
    except urllib.error.HTTPError as error:
        raise CommentError(f"{method} {address}: {error.code} {error.reason}") from None
    except (urllib.error.URLError, TimeoutError, json.JSONDecodeError) as error:
        raise CommentError(f"{method} {address}: {error}") from None


def _comments(where: Host) -> Iterator[dict[str, Any]]:
    for page in range(1, MAX_PAGES + 1):
        address = f"{where.comments}?per_page={PER_PAGE}&page={page}"
        found, _ = _call("GET", address, where.headers)
        yield from found
        if len(found) < PER_PAGE:
            return


def post(text: str, where: Host) -> str:
    """Renew the comment that begins with the text's marker, or add one; say which.

    Raises:
        CommentError: the text has no marker, or the server refused.
    """
    marker = text.split("\n", 1)[0].strip()
    if not MARKER.fullmatch(marker):
        raise CommentError("the text's first line is no marker such as <!-- stowplan-diff:v1 -->")
    for comment in _comments(where):
        if where.mine(comment) and str(comment.get("body", "")).startswith(marker):
            if comment["body"].strip() == text.strip():
                return "unchanged"
            _call(
                where.method, where.one.format(id=int(comment["id"])), where.headers, {"body": text}
            )
            return "renewed"
    _call("POST", where.comments, where.headers, {"body": text})
    return "added"


def main(arguments: list[str]) -> int:
    """Post one file; return the exit status."""
    if len(arguments) != 1:
        print("usage: comment.py FILE", file=sys.stderr)
        return 2
    try:
        text = Path(arguments[0]).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        print(f"comment.py: {error}", file=sys.stderr)
        return 2
    try:
        print(f"comment {post(text, host())}")
    except CommentError as error:
        print(f"comment.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
