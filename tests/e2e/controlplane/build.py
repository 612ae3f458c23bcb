"""Build the parts of the control plane from Go modules into a cache outside the tree.

A binary is keyed by program, module version, linker flags and source edits; what is there is
used as it is, so a second run builds nothing. Modules come through the Go client's own proxy and
checksum settings; nothing else is downloaded.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from .versions import GoProgram

#: Compiler processes at once; a build of this size is bound by memory before it is by cores.
PARALLEL_COMPILES = 2
BUILD_DEADLINE_S = 45 * 60.0


class BuildError(Exception):
    """A part of the control plane could not be built; the message says which and why."""


class NoGoToolchainError(BuildError):
    """There is no ``go`` command on PATH."""

    def __init__(self, missing: Sequence[GoProgram]) -> None:
        wanted = (
            f"{', '.join(program.label for program in missing)} must be built from source"
            if missing
            else "the manifests of Kueue and JobSet are read from their Go modules"
        )
        super().__init__(
            f"no Go toolchain: the command 'go' is not on PATH, and {wanted}. Install Go 1.26 or"
            " newer, or name an existing cluster's kubeconfig in STOWPLAN_E2E_KUBECONFIG."
        )


def cache_root() -> Path:
    """Folder of binaries and build trees: ``$STOWPLAN_CACHE`` or ``~/.cache/stowplan``."""
    configured = os.environ.get("STOWPLAN_CACHE")
    root = Path(configured) if configured else Path.home() / ".cache" / "stowplan"
    return root / "controlplane"


def binary_path(program: GoProgram) -> Path:
    """Where the binary of ``program`` is, or will be."""
    key = f"{program.module}@{program.version}"
    recipe = repr((program.ldflags, program.edits, *program.pins))
    changes = hashlib.sha256(recipe.encode()).hexdigest()[:8]
    return cache_root() / "bin" / f"{key.replace('/', '+')}-{changes}" / program.name


def missing(programs: Sequence[GoProgram]) -> list[GoProgram]:
    """The programs without a cached binary."""
    return [program for program in programs if not binary_path(program).exists()]


def forecast(programs: Sequence[GoProgram]) -> str:
    """One sentence a person reads before a long wait: what is built and for how long."""
    todo = missing(programs)
    if not todo:
        return f"control plane: all {len(programs)} programs are cached in {cache_root()}"
    minutes = sum(program.minutes for program in todo)
    names = ", ".join(program.label for program in todo)
    return (
        f"control plane: building {len(todo)} of {len(programs)} programs ({names}); about"
        f" {minutes:.0f} minutes on two cores with an empty build cache, once"
    )


def require_go(programs: Sequence[GoProgram]) -> None:
    """Refuse early what fails later: even with every binary cached, modules are read.

    Raises:
        NoGoToolchainError: there is no Go.
    """
    if shutil.which("go") is None:
        raise NoGoToolchainError(missing(programs))


def build(programs: Sequence[GoProgram], report: Callable[[str], None] = print) -> None:
    """Build every program that is not cached.

    Raises:
        NoGoToolchainError: something must be built and there is no Go.
        BuildError: a module is not served, or a compilation failed.
    """
    todo = missing(programs)
    if todo and shutil.which("go") is None:
        raise NoGoToolchainError(todo)
    report(forecast(programs))
    if not todo:
        return
    with _build_lock():
        for program in missing(programs):
            started = time.monotonic()
            _build_one(program)
            report(f"  built {program.label} in {time.monotonic() - started:.0f} s")


@cache
def module_folder(module: str, version: str) -> Path:
    """Folder of the unpacked module, downloaded when absent.

    Raises:
        BuildError: the module proxy does not serve that version.
    """
    require_go(())
    completed = subprocess.run(
        ["go", "mod", "download", "-json", f"{module}@{version}"],
        capture_output=True,
        text=True,
        check=False,
        cwd=_empty_folder(),
        timeout=BUILD_DEADLINE_S,
    )
    try:
        answer = json.loads(completed.stdout)
    except json.JSONDecodeError:
        answer = {"Error": completed.stderr.strip() or "go mod download answered nothing"}
    if "Error" in answer:
        raise BuildError(f"{module}@{version} is not available: {answer['Error']}")
    return Path(answer["Dir"])


def _build_one(program: GoProgram) -> None:
    target = binary_path(program)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_suffix(".partial")
    if program.own_module:
        folder = _wrapper_module(program)
        package = "/".join([program.module, *Path(program.package).parts])
        mode = "-mod=mod"
    else:
        folder = module_folder(program.module, program.version)
        if program.edits:
            folder = _edited_module(program, folder)
        package = program.package
        mode = "-mod=readonly"
    ldflags = " ".join(["-s", "-w", *(f"-X {flag}" for flag in program.ldflags)])
    command = ["go", "build", mode, "-trimpath", "-p", str(PARALLEL_COMPILES)]
    command += ["-ldflags", ldflags, "-o", str(partial), package]
    _run_go(command, folder, program)
    partial.rename(target)


def _run_go(command: list[str], folder: Path, program: GoProgram) -> None:
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    try:
        completed = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=BUILD_DEADLINE_S,
        )
    except subprocess.TimeoutExpired as error:
        raise BuildError(
            f"{program.label}: not built within {BUILD_DEADLINE_S / 60:.0f} minutes"
        ) from error
    if completed.returncode != 0:
        tail = "\n".join(completed.stderr.strip().splitlines()[-20:])
        raise BuildError(f"{program.label}: go build failed\n{tail}")


def _wrapper_module(program: GoProgram) -> Path:
    """A module of our own that requires the program's, without its replacements by folders.

    Staging modules of Kubernetes are required as v0.0.0 and need the published minor version
    instead; the list is read from the required version's go.mod, since it changes (1.36 added
    ``k8s.io/streaming``). Other modules are required at versions that exist, and replaced by
    others as the required module itself replaces them.
    """
    upstream = (module_folder(program.module, program.version) / "go.mod").read_text()
    staging = re.findall(r"^\s*(\S+) => \./staging/\S+$", upstream, flags=re.MULTILINE)
    language = re.search(r"^go (\S+)$", upstream, flags=re.MULTILINE)
    if language is None:
        raise BuildError(f"{program.label}: its go.mod states no Go version")
    minor = program.version.removeprefix("v1.")
    # Replacements count in the main module only, which is ours now.
    kept = re.findall(r"^(?:replace )?\s*(\S+ => \S+ v\S+)$", upstream, flags=re.MULTILINE)
    pinned = [f"{module} => {module} {version}" for module, version in program.pins]
    lines = ["module stowplan.invalid/controlplane", "", f"go {language.group(1)}", ""]
    lines += [f"require {program.module} {program.version}", ""]
    lines += [f"replace {module} => {module} v0.{minor}" for module in staging]
    lines += [f"replace {rule}" for rule in (*kept, *pinned)]
    folder = cache_root() / "build" / f"{program.module.replace('/', '+')}@{program.version}"
    folder.mkdir(parents=True, exist_ok=True)
    go_mod = folder / "go.mod"
    if not go_mod.exists():
        go_mod.write_text("\n".join(lines) + "\n")
    return folder


def _edited_module(program: GoProgram, source: Path) -> Path:
    """A copy of the module with the program's edits; the module cache itself is never changed.

    Raises:
        BuildError: the source has changed, so that an edit no longer applies exactly once.
    """
    folder = cache_root() / "build" / binary_path(program).parent.name
    if folder.exists():
        shutil.rmtree(folder)
    shutil.copytree(source, folder, copy_function=shutil.copyfile)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    for name, old, new in program.edits:
        text = (folder / name).read_text()
        if text.count(old) != 1:
            raise BuildError(f"{program.label}: {old} occurs {text.count(old)} times in {name}")
        (folder / name).write_text(text.replace(old, new))
    return folder


def _empty_folder() -> Path:
    folder = cache_root() / "build" / "empty"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def _build_lock() -> Iterator[None]:
    """One build at a time per cache: a second run waits, then finds the binaries."""
    cache_root().mkdir(parents=True, exist_ok=True)
    with (cache_root() / "build.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
