"""The pinned parts of the control plane: one row a program, one row a version."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GoProgram:
    """A program built from a Go module at one version.

    Attributes:
        name: file name of the binary.
        module: module path, as the Go module proxy knows it.
        version: module version with its leading ``v``.
        package: package inside the module, ``.`` for the module's root.
        ldflags: ``-X`` assignments (``path.variable=value``).
        minutes: build time on two cores with an empty build cache, for the forecast only.
        edits: (file of the module, literal in it, replacement) applied to the source before the
            build, for what a part offers no setting for.
        own_module: build through a go.mod of ours that requires the module. Needed for
            ``k8s.io/kubernetes`` and etcd, whose go.mod replaces sibling modules by folders
            that the published module lacks.
        pins: (module, version) that replace what ``own_module`` would choose, since the proxy
            does not serve that.
    """

    name: str
    module: str
    version: str
    package: str = "."
    ldflags: tuple[str, ...] = ()
    minutes: float = 1.0
    edits: tuple[tuple[str, str, str], ...] = ()
    own_module: bool = False
    pins: tuple[tuple[str, str], ...] = ()

    @property
    def label(self) -> str:
        return f"{self.name} {self.version}"


KUBERNETES = "v1.36.3"
ETCD = "v3.6.16"
KWOK = "v0.8.0"
ARGO_CD = "v3.2.6"
FLUX = "v1.9.6"

#: Versions whose CRDs, webhooks and controllers the module proxy serves; others are not
#: available there (Kueue 0.14.4, 0.16.0 and 0.18.0 were asked for and are missing).
KUEUE_VERSIONS = ("v0.15.0", "v0.16.2", "v0.17.0", "v0.19.2")
JOBSET_VERSIONS = ("v0.8.0", "v0.10.1", "v0.11.1", "v0.12.0")


def kubernetes_ldflags(version: str) -> tuple[str, ...]:
    """Version variables of a Kubernetes binary.

    Without them the server calls itself ``v0.0.0-master+$Format:%H$``, which Kueue cannot
    parse, so that it exits.
    """
    major, minor, _ = version.removeprefix("v").split(".")
    prefix = "k8s.io/component-base/version."
    return (
        f"{prefix}gitVersion={version}",
        f"{prefix}gitMajor={major}",
        f"{prefix}gitMinor={minor}",
        f"{prefix}gitTreeState=clean",
    )


def kubernetes(name: str, minutes: float) -> GoProgram:
    return GoProgram(
        name,
        "k8s.io/kubernetes",
        KUBERNETES,
        f"./cmd/{name}",
        kubernetes_ldflags(KUBERNETES),
        minutes,
        own_module=True,
    )


def etcd() -> GoProgram:
    return GoProgram("etcd", "go.etcd.io/etcd/server/v3", ETCD, minutes=0.5, own_module=True)


def kwok() -> GoProgram:
    return GoProgram("kwok", "sigs.k8s.io/kwok", KWOK, "./cmd/kwok")


def jobset(version: str) -> GoProgram:
    return GoProgram("jobset", "sigs.k8s.io/jobset", version, minutes=1.5)


#: Kueue reads its metrics certificate from a fixed folder in /etc even when it serves no metrics;
#: relative to the working folder it needs no root and leaves nothing behind.
KUEUE_METRICS_CERTS = "metrics-certs"


def kueue(version: str) -> GoProgram:
    edit = ("cmd/kueue/main.go", '"/etc/kueue/metrics/certs"', f'"{KUEUE_METRICS_CERTS}"')
    return GoProgram("kueue", "sigs.k8s.io/kueue", version, "./cmd/kueue", minutes=3, edits=(edit,))


def argo_cd() -> GoProgram:
    return GoProgram("argocd", "github.com/argoproj/argo-cd/v3", ARGO_CD, "./cmd", minutes=4)


def flux() -> tuple[GoProgram, ...]:
    """The two controllers of Flux that a synced tree needs."""
    return (
        GoProgram(
            "source-controller",
            "github.com/fluxcd/source-controller",
            FLUX,
            minutes=5,
            own_module=True,
            # Asks for v0.18.3 of its own artifact storage.
            pins=(("github.com/fluxcd/pkg/artifact", "v0.18.0"),),
        ),
        GoProgram(
            "kustomize-controller",
            "github.com/fluxcd/kustomize-controller",
            FLUX,
            minutes=4,
            own_module=True,
        ),
    )


#: Parts that do not depend on the cluster under test, in build order.
COMMON: tuple[GoProgram, ...] = (
    kubernetes("kube-apiserver", 3.0),
    kubernetes("kube-controller-manager", 1.0),
    kubernetes("kube-scheduler", 0.5),
    kubernetes("kubectl", 0.7),
    etcd(),
    kwok(),
)
