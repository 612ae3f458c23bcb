"""Find the conftest binary, or build it once: ``python -m tests.policies.conftest_binary``.

``make test`` runs this first. The binary from PATH wins; otherwise one is built with the Go
toolchain (about two minutes) into ``~/.cache/stowplan`` (``STOWPLAN_CACHE``) and kept there.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

VERSION = "v0.71.1"
MODULE = "github.com/open-policy-agent/conftest"
HOME = Path(os.environ.get("STOWPLAN_CACHE") or Path.home() / ".cache" / "stowplan")
CACHE = HOME / f"conftest-{VERSION}"


def find() -> str | None:
    """The binary from PATH or the cache, None where there is neither."""
    cached = CACHE / "conftest"
    return shutil.which("conftest") or (str(cached) if cached.exists() else None)


def build() -> str | None:
    """Build the pinned version into the cache; None where there is no Go toolchain."""
    if shutil.which("go") is None:
        return None
    CACHE.mkdir(parents=True, exist_ok=True)
    command = ["go", "install", f"{MODULE}@{VERSION}"]
    done = subprocess.run(command, env={**os.environ, "GOBIN": str(CACHE)}, check=False)
    return find() if done.returncode == 0 else None


def main() -> int:
    """Make sure of a binary, or say clearly that the conftest half of the tests is not run."""
    if find():
        return 0
    print(f"building conftest {VERSION} once (about two minutes)", file=sys.stderr)
    if build():
        return 0
    print(
        "NOTE: there is no conftest binary and no Go toolchain that can build one: the conftest "
        "half of the policy tests is not run",
        file=sys.stderr,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
