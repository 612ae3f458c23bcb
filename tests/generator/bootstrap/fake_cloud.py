"""Stand-ins for ``gcloud`` and ``kubectl`` that remember what they were told.

Each is a few lines of bash that ask a server in the test's own process. Every call is logged; a call
that the state's ``deny`` is a prefix of fails as a missing permission does.
"""

from __future__ import annotations

import copy
import socketserver
from pathlib import Path
from typing import Any

EMPTY: dict[str, Any] = {
    "projects": {"acme-training": "123456789012"},
    "clusters": {},
    "pools": {},
    "buckets": {},
    "policies": {},
    "images": {},
    "calls": [],
    "deny": "",
}


def options(arguments: list[str]) -> tuple[list[str], dict[str, str]]:
    """Split words from ``--name=value`` and bare flags."""
    words = [a for a in arguments if not a.startswith("--")]
    pairs = (a[2:].partition("=") for a in arguments if a.startswith("--"))
    return words, {name: value if sign else "yes" for name, sign, value in pairs}


def matching(names: Any, wanted: str) -> list[str]:
    """``--filter=name=X`` over names."""
    name = wanted.removeprefix("name=").split(" ")[0]
    return [found for found in names if not wanted or found == name]


class Cloud:
    """A project in a dictionary."""

    def __init__(self, state: dict[str, Any]) -> None:
        self.state = state

    def gcloud(self, arguments: list[str]) -> str:
        words, given = options(arguments)
        handlers = {
            "projects describe": self.project,
            "container clusters": self.clusters,
            "container node-pools": self.pools,
            "storage buckets": self.buckets,
            "compute resource-policies": self.policies,
        }
        return handlers[" ".join(words[:2])](words[2:], given)

    def project(self, words: list[str], given: dict[str, str]) -> str:
        return str(self.state["projects"][words[0]])

    def clusters(self, words: list[str], given: dict[str, str]) -> str:
        verb, *rest = words
        clusters = self.state["clusters"]
        if verb == "list":
            return "\n".join(matching(clusters, given.get("filter", "")))
        if verb == "create":
            addons = given.get("addons", "").split(",")
            clusters[rest[0]] = {
                "workloadIdentityConfig.workloadPool": given["workload-pool"],
                "currentMasterVersion": given["cluster-version"],
                **{field: "True" for addon, field in ADDONS.items() if addon in addons},
            }
        elif verb == "update":
            cluster = clusters[rest[0]]
            if "workload-pool" in given:
                cluster["workloadIdentityConfig.workloadPool"] = given["workload-pool"]
            for addon, field in ADDONS.items():
                if f"{addon}=ENABLED" in given.get("update-addons", ""):
                    cluster[field] = "True"
        elif verb == "describe":
            return str(clusters[rest[0]].get(given["format"][6:-1], ""))
        return ""

    def pools(self, words: list[str], given: dict[str, str]) -> str:
        verb, *rest = words
        if verb == "list":
            return "\n".join(self.state["pools"])
        if verb == "create":
            self.state["pools"][rest[0]] = {
                "config.machineType": given["machine-type"],
                "config.workloadMetadataConfig.mode": given.get("workload-metadata", ""),
                "placementPolicy.tpuTopology": given.get("tpu-topology", ""),
                "placementPolicy.policyName": given.get("placement-policy", ""),
            }
            return ""
        return str(self.state["pools"][rest[0]][given["format"][6:-1]])

    def buckets(self, words: list[str], given: dict[str, str]) -> str:
        verb, *rest = words
        buckets = self.state["buckets"]
        if verb == "list":
            return "\n".join(matching(buckets, given.get("filter", "")))
        name = rest[0].removeprefix("gs://")
        if verb == "create":
            buckets[name] = {
                "hierarchicalNamespace.enabled": str("enable-hierarchical-namespace" in given),
                "iamConfiguration.uniformBucketLevelAccess.enabled": str(
                    "uniform-bucket-level-access" in given
                ),
                "bindings": [],
            }
        elif verb == "describe":
            return str(buckets[name].get(given["format"][6:-1], ""))
        elif verb == "get-iam-policy":
            return "\n".join(buckets[name]["bindings"])
        elif verb == "add-iam-policy-binding":
            buckets[name]["bindings"].append(f"{given['role']},{given['member']},")
        return ""

    def policies(self, words: list[str], given: dict[str, str]) -> str:
        if words[0] == "list":
            return "\n".join(matching(self.state["policies"], given.get("filter", "")))
        self.state["policies"][words[2]] = given["accelerator-topology"]
        return ""

    def kubectl(self, arguments: list[str]) -> str:
        images = self.state["images"]
        if "get" in arguments:
            return str(images.get(arguments[arguments.index("deployment") + 1], ""))
        if "apply" in arguments:
            folder = Path(arguments[arguments.index("--kustomize") + 1])
            (version,) = (
                line.split("/download/")[1].split("/")[0]
                for line in (folder / "kustomization.yaml").read_text().splitlines()
                if "/download/" in line
            )
            images[f"{folder.name}-controller-manager"] = (
                f"registry.example/{folder.name}:{version}"
            )
        return ""


ADDONS = {
    "HighScaleCheckpointing": "addonsConfig.highScaleCheckpointingConfig.enabled",
    "GcsFuseCsiDriver": "addonsConfig.gcsFuseCsiDriverConfig.enabled",
}


class Calls(socketserver.StreamRequestHandler):
    """One call of a stand-in: a count, the program and its arguments, each with a NUL behind it.

    The answer is the exit code on a line of its own, then the output.
    """

    def handle(self) -> None:
        count = int(self._word())
        program, *arguments = (self._word() for _ in range(count + 1))
        state: dict[str, Any] = self.server.state  # type: ignore[attr-defined]
        state["calls"].append([program, *arguments])
        line = f"{program} {' '.join(arguments)}"
        if state["deny"] and line.startswith(state["deny"]):
            self.wfile.write(b"1\nERROR: permission denied\n")
            return
        answer = getattr(Cloud(state), program)(arguments)
        self.wfile.write(b"0\n" + (answer + "\n" if answer else "").encode())

    def _word(self) -> str:
        found = bytearray()
        while (byte := self.rfile.read(1)) not in (b"", b"\0"):
            found += byte
        return found.decode()


class Server(socketserver.ThreadingTCPServer):
    """The cloud on a port of the loopback interface."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Calls)
        self.state = copy.deepcopy(EMPTY)


STAND_IN = """\
#!/bin/bash
exec 3<>/dev/tcp/127.0.0.1/{port}
printf '%s\\0' "$#" {program} "$@" >&3
IFS= read -r code <&3
if [[ "$code" != 0 ]]; then cat <&3 >&2; else cat <&3; fi
exit "$code"
"""
