"""Run the Rego policies: one small interface, an engine inside the process and one that calls the
conftest binary.

The policies are plain conftest policies: ``deny_<kind>`` and ``warn_<kind>`` rules in one package a
concern, collected by ``main.<concern>`` and package ``main``. A result is an object with ``msg``
(what conftest prints), ``text``, ``id``, ``severity``, ``fix`` and ``path``; both engines make the
same :class:`PolicyResult` of it.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, Protocol

from generator.findings import Severity

ENTRY = "stowplan_entry"
KINDS = (
    "checkpointconfiguration",
    "clusterqueue",
    "cohort",
    "jobset",
    "localqueue",
    "priorityclass",
    "provisioningrequestconfig",
    "resourceflavor",
    "workload",
    "any",
)
"""Suffixes of rule names: which objects a rule looks at. ``workload`` is every kind with a pod
template, ``any`` every object."""

WORKLOAD_KINDS = frozenset(
    {
        "CronJob",
        "DaemonSet",
        "Deployment",
        "Job",
        "JobSet",
        "Pod",
        "ReplicaSet",
        "StatefulSet",
    }
)


class PolicyError(Exception):
    """The policies themselves, or the engine, failed; never the judged object."""


@dataclass(frozen=True, slots=True, order=True)
class PolicyResult:
    """What one policy rule says about one object."""

    rule: str
    severity: Severity
    message: str
    fix: str
    path: tuple[str | int, ...]


class PolicyEngine(Protocol):
    """Judges objects by the policies."""

    def judge(self, bodies: Sequence[Mapping[str, Any]]) -> list[list[PolicyResult]]:
        """Return each object's results, sorted, in the order of the objects.

        Raises:
            PolicyError: the policies or the engine failed.
        """
        ...


def policy_folder() -> Path:
    """The folder of the policies that come with the package."""
    return Path(str(resources.files("policies")))


def policy_files(folder: Path | None = None) -> list[Path]:
    """The policy files of a folder, tests left out, in a fixed order."""
    return sorted(
        path
        for path in (folder or policy_folder()).rglob("*.rego")
        if not path.name.endswith("_test.rego")
    )


def entry_of(body: Mapping[str, Any]) -> str:
    """The entry rule that holds every policy rule concerning an object."""
    kind = body.get("kind")
    kind = kind if isinstance(kind, str) else ""
    if kind.lower() in KINDS:
        return kind.lower()
    return "workload" if kind in WORKLOAD_KINDS else "any"


def _suffixes(entry: str) -> tuple[str, ...]:
    """The rule-name suffixes that an entry rule collects."""
    also = {"jobset": ("workload", "any"), "workload": ("any",), "any": ()}
    return (entry, *also.get(entry, ("any",)))


def result_of(value: Mapping[str, Any]) -> PolicyResult:
    """Read one result object of a policy rule."""
    return PolicyResult(
        rule=str(value["id"]),
        severity=Severity(value["severity"]),
        message=str(value["text"]),
        fix=str(value.get("fix", "")),
        path=tuple(value.get("path", ())),
    )


def _entry_module(packages: Sequence[tuple[str, str]]) -> str:
    """Write the module that collects, for each kind, the rules that concern it.

    Args:
        packages: ``(package, rule name)`` of every deny and warn rule.
    """
    lines = [f"package {ENTRY}", "import rego.v1"]
    for entry in KINDS:
        suffixes = _suffixes(entry)
        for package, rule in packages:
            if rule.partition("_")[2] in suffixes:
                lines.append(f"{entry} contains r if some r in data.{package}.{rule}")
    return "\n".join(lines) + "\n"


class RegorusEngine:
    """Evaluates the policies inside the process (regorus).

    Create one per process and thread, after a fork: the engine may not be shared. The policies are
    interpreted: regorus' compiled form (``Rvm``, tried at 0.13.0) is several times as quick, but
    disagreed with OPA on many of the test cases, has no ``walk``, and stops after 25,000
    instructions.
    """

    def __init__(self, folder: Path | None = None, data: Mapping[str, Any] | None = None) -> None:
        # Loaded here, not with the module: `stowplan --help` must not pay for it.
        from regorus import Engine  # type: ignore[import-untyped]

        from generator.checks.policy_metadata import rule_heads

        self._engine = Engine()
        files = policy_files(folder)
        packages: list[tuple[str, str]] = []
        for path in files:
            text = path.read_text("utf-8")
            self._add(str(path), text)
            if path.parent.name != "main":
                packages.extend(rule_heads(text))
        self._add(f"{ENTRY}.rego", _entry_module(sorted(set(packages))))
        if data:
            self._engine.add_data_json(json.dumps(data))

    def _add(self, name: str, text: str) -> None:
        try:
            self._engine.add_policy(name, text)
        except RuntimeError as error:
            raise PolicyError(f"{name}: {_first_lines(error)}") from None

    def judge(self, bodies: Sequence[Mapping[str, Any]]) -> list[list[PolicyResult]]:
        """See :class:`PolicyEngine`."""
        return [self._judge_one(body) for body in bodies]

    def _judge_one(self, body: Mapping[str, Any]) -> list[PolicyResult]:
        try:
            self._engine.set_input_json(json.dumps(body, default=str))
            answer = self._engine.eval_rule_as_json(f"data.{ENTRY}.{entry_of(body)}")
        except RuntimeError as error:
            raise PolicyError(_first_lines(error)) from None
        if not answer or answer == "[]":
            return []
        return sorted({result_of(value) for value in json.loads(answer)})


def _first_lines(error: Exception) -> str:
    return str(error).partition("Stack backtrace")[0].strip()


class ConftestEngine:
    """Evaluates the policies with the conftest binary, one run for all objects."""

    def __init__(
        self,
        binary: str = "conftest",
        folder: Path | None = None,
        data: Mapping[str, Any] | None = None,
    ) -> None:
        self._binary = binary
        self._folder = folder or policy_folder()
        self._data = data

    def judge(self, bodies: Sequence[Mapping[str, Any]]) -> list[list[PolicyResult]]:
        """See :class:`PolicyEngine`."""
        if not bodies:
            return []
        with tempfile.TemporaryDirectory(prefix="stowplan-") as scratch:
            root = Path(scratch)
            (root / "in").mkdir()
            for number, body in enumerate(bodies):
                path = root / "in" / f"{number:08d}.json"
                path.write_text(json.dumps(body, default=str), "utf-8")
            command = [
                self._binary, "test", "--policy", str(self._folder), "--output", "json",
                "--no-color", "--show-builtin-errors",
            ]  # fmt: skip
            if self._data:
                data = root / "data.json"
                data.write_text(json.dumps(self._data), "utf-8")
                command += ["--data", str(data)]
            answer = self._run([*command, str(root / "in")])
        out: list[list[PolicyResult]] = [[] for _ in bodies]
        for entry in answer:
            results = out[int(Path(entry["filename"]).stem)]
            for group in ("failures", "warnings"):
                for value in entry.get(group) or []:
                    metadata = value.get("metadata") or {}
                    if "id" not in metadata:
                        raise PolicyError(f"a policy result without an id: {value.get('msg')}")
                    results.append(result_of(metadata))
        return [sorted(set(results)) for results in out]

    def _run(self, command: list[str]) -> list[dict[str, Any]]:
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            raise PolicyError(
                f"there is no {self._binary!r} on PATH; install conftest, or leave out --engine"
            ) from None
        try:
            answer: list[dict[str, Any]] = json.loads(done.stdout)
        except json.JSONDecodeError:
            raise PolicyError(f"conftest failed: {(done.stderr or done.stdout).strip()}") from None
        return answer


ENGINES = ("embedded", "conftest")


@lru_cache(maxsize=4)
def _embedded(folder: Path | None, data: str) -> RegorusEngine:
    return RegorusEngine(folder, json.loads(data))


def engine_for(
    name: str = "embedded",
    folder: Path | None = None,
    data: Mapping[str, Any] | None = None,
) -> PolicyEngine:
    """Return an engine; the embedded one is made once per process.

    Raises:
        PolicyError: no such engine, or its policies do not load.
    """
    if name == "embedded":
        return _embedded(folder, json.dumps(data or {}))
    if name == "conftest":
        return ConftestEngine(folder=folder, data=data)
    raise PolicyError(f"there is no engine {name!r}; choose one of {', '.join(ENGINES)}")
