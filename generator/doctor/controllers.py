"""Do the controllers run, in the versions of the inventory, and do their webhooks answer?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from generator.diff.conditions import dig
from generator.doctor.look import Look
from generator.doctor.objects import Object, condition, labels_of, name_of
from generator.doctor.reads import JOBSET, JOBSET_NAMESPACE, KUEUE, KUEUE_NAMESPACE
from generator.findings import Finding, Severity
from schemas.quantity import QuantityError, parse_quantity
from schemas.versions import minor_of

_E, _W, _N = Severity.ERROR, Severity.WARNING, Severity.NOTE
_SILENT_S = 60
"""After so many seconds a controller that runs has written a status."""


@dataclass(frozen=True, slots=True)
class Controller:
    """One controller as its release installs it.

    Attributes:
        title: what people call it.
        fact: its name under ``versions`` of ``cluster.yaml``.
        deployment: name of its Deployment.
        namespace: where it runs.
        deployments: the read that holds it.
        endpoints: the read that holds the endpoints of its webhook.
        group: its API group.
        resource: a resource that its webhooks take part in.
    """

    title: str
    fact: str
    deployment: str
    namespace: str
    deployments: str
    endpoints: str
    group: str
    resource: str


KUEUE_CONTROLLER = Controller(
    "Kueue",
    "kueue",
    "kueue-controller-manager",
    KUEUE_NAMESPACE,
    "kueuedeployments",
    "kueueendpoints",
    KUEUE,
    "workloads",
)
JOBSET_CONTROLLER = Controller(
    "JobSet",
    "jobset",
    "jobset-controller-manager",
    JOBSET_NAMESPACE,
    "jobsetdeployments",
    "jobsetendpoints",
    JOBSET,
    "jobsets",
)
CONTROLLERS = (KUEUE_CONTROLLER, JOBSET_CONTROLLER)

_SIGNS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "Kueue": ("clusterqueues", ("conditions",)),
    # A JobSet that is admitted before its controller first sees it never gets a condition.
    "JobSet": ("jobsets", ("conditions", "replicatedJobsStatus")),
}
"""Controller → the list that shows its life, and the fields of a status that it writes."""


def _served(look: Look, controller: Controller) -> bool:
    kinds = {"Kueue": "Workload", "JobSet": "JobSet"}
    return bool(look.snapshot.serves(controller.group, kinds[controller.title]))


def _deployment(look: Look, controller: Controller) -> Object | None:
    for item in look.snapshot.items(controller.deployments):
        if name_of(item) == controller.deployment:
            return item
    return None


def controllers_run(look: Look) -> Iterator[Finding]:
    """Each controller's Deployment is available, or the controller shows signs of life."""
    for controller in CONTROLLERS:
        if not _served(look, controller) or not look.snapshot.has(controller.deployments):
            continue
        resource = f"Deployment {controller.namespace}/{controller.deployment}"
        deployment = _deployment(look, controller)
        if deployment is None:
            yield from _absent(look, controller, resource)
        elif not dig(dict(deployment), "status", "availableReplicas"):
            why = condition(deployment, "Available").get("message", "")
            yield look.finding(
                "DOC004",
                _E,
                resource,
                f"{controller.title}'s controller has no available replica"
                + (f": {why}" if why else ""),
                look.kubectl("-n", controller.namespace, "describe", "pods"),
            )
        else:
            yield from _version(look, controller, deployment, resource)


def _absent(look: Look, controller: Controller, resource: str) -> Iterator[Finding]:
    alive = _life(look, controller)
    if alive:
        return  # it runs somewhere: a managed controller, another name or namespace
    fix = f"install the rest of the {controller.title} release, not its CRDs alone"
    if alive is None:
        yield look.finding(
            "DOC004",
            _W,
            resource,
            f"{controller.title}'s CRDs are there and its Deployment is not; nothing shows whether "
            "the controller runs under another name",
            fix,
        )
        return
    yield look.finding(
        "DOC004",
        _E,
        resource,
        f"{controller.title} is half installed: its CRDs are there, its Deployment is not, and "
        "nobody has answered the objects",
        fix,
    )


def _life(look: Look, controller: Controller) -> bool | None:
    """Whether the controller writes statuses; None where no object could show it."""
    key, signs = _SIGNS[controller.title]
    written = [
        any(dig(item, "status", sign) for sign in signs) for item in look.snapshot.items(key)
    ]
    if any(written):
        return True
    ages = (
        look.snapshot.age_s(dig(item, "metadata", "creationTimestamp"))
        for item in look.snapshot.items(key)
    )
    return False if any(age > _SILENT_S for age in ages) else None


def _version(
    look: Look, controller: Controller, deployment: Object, resource: str
) -> Iterator[Finding]:
    stated = str(look.fact("versions", controller.fact) or "")
    running = image_version(_containers(deployment))
    if not stated or not running or running == stated:
        return
    same_minor = minor_of(running) == minor_of(stated)
    yield look.finding(
        "DOC003",
        _N if same_minor else _W,
        resource,
        f"{controller.title} {running} runs, and the inventory says {stated}",
        f"set versions.{controller.fact} in the inventory and compile, or upgrade the cluster",
    )


def _containers(deployment: Object) -> list[Mapping[str, Any]]:
    return dig(dict(deployment), "spec", "template", "spec", "containers") or []


def image_version(containers: list[Mapping[str, Any]]) -> str:
    """The version in the tag of the first container's image, empty where it has none."""
    image = str(containers[0].get("image", "")) if containers else ""
    tag = image.partition("@")[0].rpartition("/")[2].partition(":")[2]
    return tag.removeprefix("v") if minor_of(tag) else ""


def jobset_memory(look: Look) -> Iterator[Finding]:
    """The JobSet controller has the memory that the GKE documentation asks for: 1Gi to 2Gi."""
    deployment = _deployment(look, JOBSET_CONTROLLER)
    containers = _containers(deployment) if deployment else []
    if not containers:
        return
    limit = dig(dict(containers[0]), "resources", "limits", "memory")
    try:
        enough = limit is None or parse_quantity(str(limit)) >= parse_quantity("2Gi")
    except QuantityError:
        return
    if not enough:
        yield look.finding(
            "DOC007",
            _W,
            f"Deployment {JOBSET_NAMESPACE}/{JOBSET_CONTROLLER.deployment}",
            f"the controller's memory limit is {limit}; with multi-tier checkpointing it wants "
            "2Gi (request 1Gi, cpu 1)",
            "use the component compiled/CLUSTER/controllers in the kustomization that installs it",
        )


def webhooks_answer(look: Look) -> Iterator[Finding]:
    """Each controller's webhooks are registered and somebody is behind them."""
    hooks = [
        hook
        for key in ("mutatingwebhooks", "validatingwebhooks")
        for item in look.snapshot.items(key)
        for hook in item.get("webhooks") or []
    ]
    for controller in CONTROLLERS:
        if not _served(look, controller):
            continue
        own = [hook for hook in hooks if _takes_part(hook, controller)]
        if not own:
            yield look.finding(
                "DOC005",
                _E,
                controller.title,
                f"{controller.title} is half installed: no admission webhook takes part in "
                f"{controller.resource}, so nothing is defaulted, checked"
                + (" or suspended" if controller is KUEUE_CONTROLLER else ""),
                f"apply the webhook configurations of the {controller.title} release",
            )
        elif look.snapshot.has(controller.endpoints):
            yield from _unanswered(look, controller, own)


def _takes_part(hook: Object, controller: Controller) -> bool:
    return any(
        controller.group in rule.get("apiGroups", ())
        and controller.resource in rule.get("resources", ())
        for rule in hook.get("rules") or []
    )


def _unanswered(look: Look, controller: Controller, hooks: list[Object]) -> Iterator[Finding]:
    services = {
        str(dig(dict(hook), "clientConfig", "service", "name"))
        for hook in hooks
        if dig(dict(hook), "clientConfig", "service", "namespace") == controller.namespace
    }
    ready = {
        labels_of(item).get("kubernetes.io/service-name")
        for item in look.snapshot.items(controller.endpoints)
        for endpoint in item.get("endpoints") or []
        if dig(endpoint, "conditions", "ready") is not False
    }
    for service in sorted(services - ready):
        yield look.finding(
            "DOC005",
            _E,
            f"Service {controller.namespace}/{service}",
            f"nobody answers {controller.title}'s webhooks: the API server refuses every change of "
            f"{controller.resource} and whatever else they guard",
            look.kubectl("-n", controller.namespace, "get", "pods"),
        )
