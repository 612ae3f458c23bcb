"""The health checks, run by the Lua that Argo CD embeds (5.1) on objects in each state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from generator.data.argocd import HEALTH, health_script, health_settings

lua51 = pytest.importorskip("lupa.lua51", reason="lupa, the embedded Lua, is not installed")

STATES = Path(__file__).with_name("states")
STATUSES = {"Healthy", "Progressing", "Degraded", "Suspended", "Missing", "Unknown"}


def cases() -> list[Any]:
    found = []
    for kind, script in HEALTH.items():
        for case in yaml.safe_load((STATES / script).with_suffix(".yaml").read_text()):
            found.append(pytest.param(kind, case, id=f"{kind}: {case['state']}"))
    return found


def judge(kind: str, body: Any) -> dict[str, str]:
    """Run a script as Argo CD does: `obj` is a global, and only the base and table libraries are
    there (argo-cd util/lua/lua.go, runLua): no `string`, not even as methods of strings."""
    runtime = lua51.LuaRuntime(register_eval=False, register_builtins=False)
    runtime.execute('getmetatable("").__index = nil')
    allowed = {"_G", "ipairs", "pairs", "table", "type", "tostring", "tonumber", "next", "select"}
    for name in list(runtime.globals()):
        if name not in allowed:
            runtime.globals()[name] = None
    runtime.globals()["obj"] = to_lua(runtime, body)
    result = runtime.execute(health_script(kind))
    return {str(key): str(value) for key, value in result.items()}


def to_lua(runtime: Any, value: Any) -> Any:
    """Numbers of a decoded JSON document are floats in Argo CD's Lua."""
    if isinstance(value, dict):
        return runtime.table_from({key: to_lua(runtime, item) for key, item in value.items()})
    if isinstance(value, list):
        return runtime.table_from([to_lua(runtime, item) for item in value])
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value


@pytest.mark.parametrize(("kind", "case"), cases())
def test_the_health_of_each_state(kind: str, case: dict[str, Any]) -> None:
    assert judge(kind, case["object"]) == case["want"]


@pytest.mark.parametrize("kind", sorted(HEALTH))
@pytest.mark.parametrize(
    "body",
    [{}, {"spec": {}}, {"status": {}}, {"metadata": {}, "spec": {}, "status": {"conditions": []}}],
    ids=str,
)
def test_an_object_that_lacks_everything_is_judged(kind: str, body: Any) -> None:
    assert judge(kind, body)["status"] in STATUSES


@pytest.mark.parametrize("kind", sorted(HEALTH))
def test_nothing_is_ever_suspended(kind: str) -> None:
    """One Suspended resource suspends the whole Application (argo-cd#19126)."""
    assert '"Suspended"' not in health_script(kind)


def test_the_settings_have_argo_cds_keys() -> None:
    assert list(health_settings()) == [
        "resource.customizations.health.checkpointing.gke.io_CheckpointConfiguration",
        "resource.customizations.health.jobset.x-k8s.io_JobSet",
        "resource.customizations.health.kueue.x-k8s.io_ClusterQueue",
        "resource.customizations.health.kueue.x-k8s.io_LocalQueue",
    ]
    assert all(script.startswith("-- Health of ") for script in health_settings().values())
