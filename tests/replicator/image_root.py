"""Run a program as a container would: in a root file system of its own, read-only, as a user
without rights, and with no shell to be found. Used by test_image.py in a mount namespace of its own.

    python image_root.py ROOT RAM_DISK USER PROGRAM ARGUMENT...

ROOT/app holds the image's packages; the interpreter and the C library come from this machine.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

CLONE_NEWUSER = 0x10000000


def mount(*arguments: str) -> None:
    subprocess.run(["/bin/mount", *arguments], check=True)


def bind(source: Path, root: Path) -> None:
    """Show a file or folder at the same path, read-only."""
    target = root / source.relative_to("/")
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    mount("--bind", str(source), str(target))
    mount("--options", "remount,bind,ro", str(target))


def needed() -> list[Path]:
    """The interpreter, its library, and the C library with its loader: no folder of programs."""
    python = Path(sys.executable).resolve()
    listed = subprocess.run(["ldd", str(python)], check=True, capture_output=True, text=True)
    libraries = {Path(word) for word in listed.stdout.split() if word.startswith("/")}
    standard = Path(sysconfig.get_path("stdlib"))
    extra = {Path("/lib/x86_64-linux-gnu"), Path("/lib/aarch64-linux-gnu"), Path("/usr/lib64")}
    return [python, standard, *libraries, *(path for path in extra if path.is_dir())]


def without_rights(user: int) -> None:
    """Become this user, in a user namespace in which nobody else exists."""
    outer_user, outer_group = os.getuid(), os.getgid()  # both read as nobody's from inside
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUSER) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {outer_user} 1")
    Path("/proc/self/gid_map").write_text(f"{user} {outer_group} 1")


def main() -> None:
    root, ram_disk, user, *command = sys.argv[1:]
    top = Path(root)
    mount("--make-rprivate", "/")
    mount("--bind", root, root)
    for path in needed():
        bind(path, top)
    (top / "ram-disk").mkdir(exist_ok=True)
    mount("--bind", ram_disk, str(top / "ram-disk"))
    (top / "proc").mkdir(exist_ok=True)
    mount("--rbind", "/proc", str(top / "proc"))
    mount("--options", "remount,bind,ro", root)
    python = str(Path(sys.executable).resolve())
    # The identity is taken before the root is changed: it is written through /proc.
    without_rights(int(user))
    os.chroot(top)
    os.chdir("/app")
    variables = {"PYTHONPATH": "/app", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
    os.execve(python, [python, *command], variables)


if __name__ == "__main__":
    main()
