"""Find a tool that formats HCL, or build one: ``python -m tests.generator.bootstrap.hcl_tool``.

``terraform`` or ``tofu`` from PATH win; otherwise ``hclfmt`` of HashiCorp's own HCL library, the
code that formats inside both, is built with the Go toolchain (half a minute) into ``.cache``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

VERSION = "v2.24.0"
MODULE = "github.com/hashicorp/hcl/v2/cmd/hclfmt"
CACHE = Path(__file__).resolve().parents[3] / ".cache" / f"hclfmt-{VERSION}"


def hclfmt() -> str | None:
    """The binary from PATH or the cache, built if need be; None without a Go toolchain."""
    found = shutil.which("hclfmt") or shutil.which(str(CACHE / "hclfmt"))
    if found or shutil.which("go") is None:
        return found
    CACHE.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "GOBIN": str(CACHE)}
    subprocess.run(["go", "install", f"{MODULE}@{VERSION}"], env=environment, check=False)
    return shutil.which(str(CACHE / "hclfmt"))


def formatters() -> list[list[str]]:
    """Commands that exit with 0 if the file named after them is HCL and formatted."""
    found = [
        [path, "fmt", "-check", "-diff"]
        for name in ("terraform", "tofu")
        if (path := shutil.which(name)) is not None
    ]
    built = hclfmt()
    return [*found, *([[built, "-check", "-require-no-change"]] if built else [])]


if __name__ == "__main__":
    print(formatters())
