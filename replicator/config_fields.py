"""Typed values from the fields of a `replicator.yaml`, with environment variables expanded."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from replicator.errors import Problem
from replicator.yaml_fields import Field, Scalar, show

_VARIABLE: Final = re.compile(r"\$(?:\{([^}]*)\}|([A-Za-z_][A-Za-z0-9_]*)|)")
_INTEGER: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,18})")
MAX_LIST_PROBLEMS: Final = 20
"""Problems reported of one list, which may have a hundred thousand entries."""
EXPANDED_KEYS: Final = frozenset(
    {
        "job-name",
        "node-rank",
        "nodes",
        "workers-per-node",
        "peers-per-node",
        "assume-data-parallelism",
        "master-port",
        "backup-interval-minutes",
        "backup-interval-steps",
        "job-uid",
    }
)
"""Keys whose value may hold `$NAME` or `${NAME}`; `framework` and the entries of `peer-ranks` may
not."""

EXPANDABLE_VARIABLES: Final = frozenset(
    {
        "HOSTNAME",
        "JAX_PROCESS_ID",
        "JOB_COMPLETION_INDEX",
        "JOB_NAME",
        "JOB_UID",
        "JOBSET_NAME",
        "KUBE_NODE_NAME",
        "MASTER_PORT",
        "NNODES",
        "NODE_NAME",
        "NODE_RANK",
        "POD_NAME",
        "POD_NAMESPACE",
        "WORLD_SIZE",
    }
)
"""Variables of the agent's environment that a job may read through its `replicator.yaml`.

A closed list, and `REPLICATOR_JOB_*` beside it: the file is the job's, the environment is the
agent's, and expanding just any name would print the agent's credentials into file names and logs.
"""
EXPANDABLE_PREFIX: Final = "REPLICATOR_JOB_"


def expandable_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The part of an environment that a job's `replicator.yaml` may see."""
    return {
        name: value
        for name, value in environ.items()
        if name in EXPANDABLE_VARIABLES or name.startswith(EXPANDABLE_PREFIX)
    }


class FieldReader:
    """Turns fields into typed values, noting every problem instead of stopping at the first."""

    def __init__(
        self, fields: dict[str, Field], environ: Mapping[str, str], problems: list[Problem]
    ) -> None:
        self.fields = fields
        self.taken: set[str] = set()
        self._environ = environ
        self._problems = problems

    def problem(self, key: str, message: str) -> None:
        """Note a problem with a key's value (or with the whole file where the key is absent)."""
        field = self.fields.get(key)
        where = field.where if field is not None else None
        self._at(where, f"{key}: {message}")

    def key_problem(self, key: str, message: str) -> None:
        """Note a problem with a key itself."""
        self._at(self.fields[key].key, message)

    def _at(self, where: Scalar | None, message: str) -> None:
        line, column = (where.line, where.column) if where is not None else (1, 1)
        self._problems.append(Problem(line, column, message))

    def text(self, key: str) -> str | None:
        """The key's single value with variables expanded; None where absent, null or not usable."""
        self.taken.add(key)
        field = self.fields.get(key)
        if field is None:
            return None
        if not isinstance(field.value, Scalar):
            self.problem(key, "expected a single value, found a list")
            return None
        if field.value.is_null:
            return None
        return self._expand(key, field.value)

    def required_text(self, key: str, wanted: str) -> str | None:
        """As `text`, but a missing value is a problem."""
        before = len(self._problems)
        value = self.text(key)
        if value is None and len(self._problems) == before:
            self.problem(key, f"missing; expected {wanted}")
        return value

    def integer(self, key: str, low: int, high: int) -> int | None:
        """A whole number within bounds, or None where absent or not usable."""
        before = self.text(key)
        return None if before is None else self._whole(key, before, low, high, None)

    def required_integer(self, key: str, low: int, high: int) -> int | None:
        """As `integer`, but a missing value is a problem."""
        value = self.required_text(key, f"a whole number from {low} to {high}")
        return None if value is None else self._whole(key, value, low, high, None)

    def integers(self, key: str, low: int, high: int) -> tuple[int, ...] | None:
        """The list's whole numbers within bounds (others are problems), or None where absent."""
        self.taken.add(key)
        field = self.fields.get(key)
        if field is None:
            return None
        if isinstance(field.value, Scalar):
            if not field.value.is_null:
                self.problem(key, "expected a list of node ranks, found a single value")
            return None
        values = []
        before = len(self._problems)
        for entry in field.value:
            if (value := self._whole(key, entry.text, low, high, entry)) is not None:
                values.append(value)
            elif len(self._problems) - before >= MAX_LIST_PROBLEMS:
                self._at(entry, f"{key}: more entries like that are not shown")
                break
        return tuple(values)

    def _whole(self, key: str, text: str, low: int, high: int, at: Scalar | None) -> int | None:
        if at is None:
            at = self.fields[key].where
        wanted = f"expected a whole number from {low} to {high}"
        if not _INTEGER.fullmatch(text):
            # Safe to show even when expanded: only variables from a closed list get here.
            self._at(at, f"{key}: {wanted}, found {show(text)}")
            return None
        number = int(text)
        if not low <= number <= high:
            self._at(at, f"{key}: {wanted}, found {number}")
            return None
        return number

    def _expand(self, key: str, value: Scalar) -> str | None:
        if "$" not in value.text:
            return value.text
        if key not in EXPANDED_KEYS:
            self._at(value, f"{key}: environment variables are not expanded in this key")
            return None
        missing: list[str] = []

        def replace(match: re.Match[str]) -> str:
            name = match[1] or match[2] or ""
            if name not in self._environ:
                missing.append(name)
            return self._environ.get(name, "")

        expanded = _VARIABLE.sub(replace, value.text)
        allowed = ", ".join(sorted(EXPANDABLE_VARIABLES))
        for name in missing:
            self._at(
                value,
                f"{key}: the variable {show(name)} is not set for the replicator, or is not one "
                f"that a job may use ({EXPANDABLE_PREFIX}*, {allowed})",
            )
        return None if missing else expanded
