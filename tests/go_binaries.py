"""Go programs that tests need, found or built once: ``python -m tests.go_binaries``.

``make test`` runs this first. A binary from PATH wins; otherwise one is built with the Go toolchain
(about two minutes each) into ``~/.cache/stowplan`` (``STOWPLAN_CACHE``) and kept there.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HOME = Path(os.environ.get("STOWPLAN_CACHE") or Path.home() / ".cache" / "stowplan")


@dataclass(frozen=True)
class GoBinary:
    """A program at a pinned version, and the tests that are not run without it."""

    name: str
    module: str
    version: str
    needed_by: str

    @property
    def missing(self) -> str:
        """Why those tests are skipped."""
        return f"no {self.name} binary: install Go and run python -m tests.go_binaries once"

    def find(self) -> str | None:
        """The binary from PATH or the cache, None where there is neither."""
        cached = self._folder / self.name
        return shutil.which(self.name) or (str(cached) if cached.exists() else None)

    def build(self) -> str | None:
        """Build the pinned version into the cache; None where that is not possible."""
        if shutil.which("go") is None:
            return None
        self._folder.mkdir(parents=True, exist_ok=True)
        command = ["go", "install", f"{self.module}@{self.version}"]
        done = subprocess.run(command, env={**os.environ, "GOBIN": str(self._folder)}, check=False)
        return self.find() if done.returncode == 0 else None

    @property
    def _folder(self) -> Path:
        return HOME / f"{self.name}-{self.version}"


CONFTEST = GoBinary(
    "conftest",
    "github.com/open-policy-agent/conftest",
    "v0.71.1",
    "conftest's half of the policies",
)
FAKE_GCS_SERVER = GoBinary(
    "fake-gcs-server", "github.com/fsouza/fake-gcs-server", "v1.56.1", "backups on gs://"
)


def main() -> int:
    """Make sure of all binaries, or say clearly which tests are not run."""
    for binary in (CONFTEST, FAKE_GCS_SERVER):
        if binary.find():
            continue
        print(f"building {binary.name} {binary.version} once (minutes)", file=sys.stderr)
        if not binary.build():
            print(
                f"NOTE: there is no {binary.name} binary and none can be built here (no Go "
                f"toolchain, or it failed): the tests of {binary.needed_by} are not run",
                file=sys.stderr,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
