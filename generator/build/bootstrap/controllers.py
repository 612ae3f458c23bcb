"""JobSet and Kueue at the inventory's versions: kustomizations, and a script that installs them.

The installation documents of both projects name the release manifests. JobSet's goes through the
component ``controllers/``, which gives its controller the resources that multi-tier checkpointing
asks for.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from generator.build.bootstrap.plan import Plan
from generator.build.bootstrap.shell import Script
from generator.emit_yaml import dump


class Controller(NamedTuple):
    """A controller to be installed.

    Attributes:
        repository: owner and name of its repository, whose releases hold ``manifests.yaml``.
        namespace: where it runs.
        deployment: what runs it.
        components: kustomize components to apply, relative to its kustomization.
    """

    repository: str
    namespace: str
    deployment: str
    components: tuple[str, ...] = ()


CONTROLLERS = {
    "jobset": Controller(
        "kubernetes-sigs/jobset",
        "jobset-system",
        "jobset-controller-manager",
        ("../../controllers",),
    ),
    "kueue": Controller("kubernetes-sigs/kueue", "kueue-system", "kueue-controller-manager"),
}
"""In the order of installation: Kueue's webhooks for JobSets want the CRD of JobSet."""


def release_url(name: str, version: str) -> str:
    """The manifests of a release."""
    repository = CONTROLLERS[name].repository
    return f"https://github.com/{repository}/releases/download/v{version}/manifests.yaml"


def kustomization(name: str, version: str) -> dict[str, Any]:
    """The kustomization that installs one controller."""
    components = CONTROLLERS[name].components
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [release_url(name, version)],
        **({"components": list(components)} if components else {}),
    }


def files(plan: Plan) -> dict[str, str]:
    """The kustomizations and ``controllers.sh``."""
    versions = {"jobset": plan.jobset, "kueue": plan.kueue}
    texts = {
        f"{name}/kustomization.yaml": dump(kustomization(name, version))
        for name, version in versions.items()
    }
    texts["controllers.sh"] = _script(plan, versions)
    return texts


def _script(plan: Plan, versions: dict[str, str]) -> str:
    script = Script(
        f"Installs JobSet and Kueue in cluster {plan.cluster}. May be run again at any time.",
        "Needs gcloud, kubectl and the network. A version that differs is left alone and reported,",
        "unless UPGRADE=1 is set. PLAN=1 prints the commands that change something, and runs none.",
    )
    script.function(
        "version_of",
        "the version of a deployment's first image, empty where there is no such deployment",
        "local image",
        'image="$(kubectl --namespace "$1" get deployment "$2" --ignore-not-found '
        "--output 'jsonpath={.spec.template.spec.containers[0].image}')\" || return 1",
        'image="${image%%@*}"',
        "printf '%s' \"${image##*:}\"",
    )
    script.step("Credentials, in a file of their own: the current context is not touched")
    script.lines(
        'KUBECONFIG="$(mktemp)"',
        "export KUBECONFIG",
        "trap 'rm -f \"$KUBECONFIG\"' EXIT",
    )
    script.command(
        "gcloud", "container", "clusters", "get-credentials", plan.cluster,
        f"--project={plan.project}", f"--location={plan.location}",
    )  # fmt: skip
    for name, version in versions.items():
        _install(script, name, version)
    return script.text()


def _install(script: Script, name: str, version: str) -> None:
    controller = CONTROLLERS[name]
    script.step(f"{name} v{version}")
    script.capture("found", "version_of", controller.namespace, controller.deployment)
    apply = script.quoted(
        "run", "kubectl", "apply", "--server-side", "--kustomize", script.beside(name)
    )
    rollout = script.quoted(
        "kubectl", "--namespace", controller.namespace, "rollout", "status",
        f"deployment/{controller.deployment}", "--timeout=300s",
    )  # fmt: skip
    script.lines(
        f'if [[ -n "$found" && "$found" != v{version} && -z "${{UPGRADE:-}}" ]]; then',
        f"  printf 'left alone: {name} %s is installed, the inventory says v{version}; "
        'read its release notes, then set UPGRADE=1\\n\' "$found"',
        "else",
        f"  {apply}",
        f'  [[ -n "$PLAN" ]] || {rollout}',
        "fi",
    )
