"""Run the tests that need real Orbax and real torch, each in an environment of its own.

    python -m tests.replicator.real_clients [orbax] [torch]

The two are large (torch brings its CUDA libraries, about 5 GB), so they are not in the lock file.
Their environments are made once in ``~/.cache/stowplan`` (``STOWPLAN_CACHE``) and kept there.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import venv
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
HOME = Path(os.environ.get("STOWPLAN_CACHE") or Path.home() / ".cache" / "stowplan")
SHARED = (
    "blake3",
    "hypothesis",
    "inotify-simple",
    "obstore",
    "prometheus-client",
    "pytest",
    "pytest-timeout",
    "pyyaml",
)
CLIENTS: dict[str, tuple[str, ...]] = {
    "orbax": ("orbax-checkpoint==0.12.8", "jax==0.10.2", "tensorstore==0.1.86"),
    "torch": ("torch==2.15.0", "numpy==2.4.6", "lightning==2.6.6"),
}
TESTS: dict[str, tuple[str, ...]] = {
    "orbax": (
        "test_real_clients.py", "test_reference_backups_restore.py", "test_client_orbax.py",
        "test_digests.py", "test_backups_on_a_path.py", "test_client_guide.py",
    ),
    "torch": (
        "test_real_clients.py", "test_client_torch.py", "test_client_torch_faults.py",
        "test_client_lightning.py", "test_client_guide.py",
    ),
}  # fmt: skip


def requirements(client: str) -> list[str]:
    """The client's packages, and ours at the versions of the lock file."""
    lock = (REPOSITORY / "requirements.lock").read_text()
    locked = dict(re.findall(r"^([A-Za-z0-9_.\-]+)==([^\s;\\]+)", lock, re.M))
    return [*CLIENTS[client], *(f"{name}=={locked[name]}" for name in SHARED)]


def python_for(client: str) -> Path:
    """The environment's interpreter; the environment is made if it is not there."""
    wanted = requirements(client)
    key = hashlib.sha256("\n".join(wanted).encode()).hexdigest()[:8]
    folder = HOME / f"{client}-{key}"
    python = folder / "bin" / "python"
    done = folder / "done"
    if not done.exists():
        print(f"making an environment with {client} in {folder} (once; minutes)", flush=True)
        venv.create(folder, with_pip=True, clear=True)
        command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*command, *wanted], check=True)
        done.touch()
    return python


def main(clients: list[str]) -> int:
    """Run the tests of each client; the exit status is the first that is not 0."""
    status = 0
    for client in clients or list(CLIENTS):
        tests = [
            str(path)
            for name in TESTS[client]
            if (path := REPOSITORY / "tests" / "replicator" / name).exists()
        ]
        print(f"== real {client}", flush=True)
        done = subprocess.run(
            [str(python_for(client)), "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests],
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            check=False,
        )
        status = status or done.returncode
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
