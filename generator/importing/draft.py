"""From cleaned objects to the parameters of one target."""

from __future__ import annotations

from typing import Any

from generator.findings import Severity
from generator.importing.checkpoints import checkpointing
from generator.importing.jobs import Surroundings, workloads
from generator.importing.options import Options
from generator.importing.pools import Pools, from_facts, work_out
from generator.importing.queues import queueing
from generator.importing.sources import Log, Source, by_kind, entries, mapping
from generator.validate import validate
from schemas.versions import UnknownVersionError, resolve

# inventory path below ``cluster`` → option, what it is, where to look.
REQUIRED: dict[tuple[str, ...], tuple[str, str, str]] = {
    ("project", "id"): ("--project ID", "the Google Cloud project", ""),
    ("project", "number"): (
        "--project-number NUMBER",
        "the project's number",
        "; gcloud projects describe ID --format='value(projectNumber)' prints it",
    ),
    ("location",): ("--location REGION", "the cluster's region or zone", ""),
    ("gkeVersion",): (
        "--gke-version VERSION",
        "the control plane's version",
        "; kubectl version prints it",
    ),
    ("versions", "kueue"): (
        "--kueue-version VERSION",
        "Kueue's version",
        "; it is the tag of its controller's image",
    ),
    ("versions", "jobset"): (
        "--jobset-version VERSION",
        "JobSet's version",
        "; it is the tag of its controller's image",
    ),
}


def draft(
    sources: list[Source],
    facts: dict[str, Any],
    inherited: dict[str, Any],
    options: Options,
    log: Log,
) -> dict[str, Any]:
    """The target's parameters; what is missing is said in the log.

    Args:
        sources: the objects.
        facts: the cluster's ``cluster.yaml``, empty without one.
        inherited: parameters that the target's classes give already.
        options: the user's answers.
        log: takes what is said.
    """
    pools = Pools()
    shared = mapping(inherited.get("nodePools"))
    for name, spec in shared.items():
        pools.add(name, mapping(spec))
    for name, spec in _stated_pools(facts, sources, log):
        if name not in options.node_pools:
            pools.add(name, spec)
    work_out(pools, sources, options, log)
    ladder = priorities(sources, options, log)
    queues = queueing(sources, mapping(inherited.get("queueing")), pools, log)
    disks = checkpointing(sources, pools, options, log)
    rungs = {**mapping(inherited.get("priorities")), **ladder}
    usual = (name for name, rung in rungs.items() if mapping(rung).get("globalDefault"))
    around = Surroundings(
        pools,
        mapping(queues.get("localQueues")),
        frozenset(rungs),
        next(usual, ""),
        {name: entry["nodePool"] for name, entry in disks.items()},
        {name: entry["backup"] for name, entry in disks.items()},
    )
    sections = {
        "cluster": cluster(facts, mapping(inherited.get("cluster")), options, log),
        "nodePools": {n: spec for n, spec in pools.specs.items() if spec is not shared.get(n)},
        "checkpointing": disks,
        "priorities": ladder,
        "queueing": queues,
        "workloads": workloads(sources, around, options, log),
        "waivers": entries(mapping(facts.get("spec")).get("waivers")),
    }
    return {key: value for key, value in sections.items() if value}


def _stated_pools(
    facts: dict[str, Any], sources: list[Source], log: Log
) -> list[tuple[str, dict[str, Any]]]:
    try:
        return list(from_facts(facts, list(by_kind(sources, "ResourceFlavor"))))
    except (KeyError, TypeError, ValueError) as error:
        log.missing(
            f"spec.nodePools of cluster.yaml is not as compile writes it ({error!r})",
            "compile it anew, or leave the file out and give the node pools as options",
        )
        return []


def cluster(
    facts: dict[str, Any], inherited: dict[str, Any], options: Options, log: Log
) -> dict[str, Any]:
    """The ``cluster`` section: facts, overridden by options; what nothing says is missing."""
    spec, metadata = mapping(facts.get("spec")), mapping(facts.get("metadata"))
    labels = {k: str(v) for k, v in mapping(metadata.get("labels")).items()}
    section: dict[str, Any] = {
        "name": options.cluster,
        "project": dict(mapping(spec.get("project"))),
        "location": spec.get("location"),
        "nodeLocations": spec.get("nodeLocations"),
        "gkeVersion": spec.get("gkeVersion"),
        "versions": dict(mapping(spec.get("versions"))),
        "environment": labels.pop("environment", None),
        "labels": labels,
    }
    for path, given in options.settings.items():
        holder = section
        for key in path[:-1]:
            holder = holder.setdefault(key, {})
        holder[path[-1]] = given
    for path, (option, what, hint) in REQUIRED.items():
        if not _at(section, path) and not _at(inherited, path):
            log.missing(f"{what} stands in no manifest", f"add {option}{hint}")
    api = _kueue_api(spec, section["versions"])
    if api:
        section["versions"]["kueueApi"] = api
    if section["environment"] == "default":
        del section["environment"]
    section = {key: value for key, value in section.items() if value}
    _judge(section, log)
    return section


def _at(holder: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        holder = mapping(holder).get(key)
    return holder


def _judge(section: dict[str, Any], log: Log) -> None:
    """Say at once what is wrong with values that were given; absent ones have been asked for."""
    _, problems = validate({"cluster": section})
    for problem in problems:
        path = tuple(str(part) for part in problem.path)
        if problem.rule != "INV012":
            option = option_of(path)
            message = f"{option}: {problem.message}" if option else problem.message
            log.add(problem.rule, Severity.ERROR, message, problem.fix)


def option_of(path: tuple[str, ...]) -> str:
    """The option by which a value outside any manifest is given, empty if there is none."""
    if path[:1] == ("nodePools",) and len(path) > 1:
        return f"--node-pool {path[1]}"
    found = REQUIRED.get(path[1:]) if path[:1] == ("cluster",) else None
    return found[0].split()[0] if found else ""


def _kueue_api(spec: dict[str, Any], versions: dict[str, Any]) -> str | None:
    """The API version of Kueue, where it is not the one that compile would choose."""
    stated = mapping(spec.get("apiVersions")).get("kueue")
    try:
        usual = resolve("kueue", str(versions.get("kueue", ""))).api_version
    except UnknownVersionError:
        return None
    return str(stated).rpartition("/")[2] if stated and stated != usual else None


def priorities(sources: list[Source], options: Options, log: Log) -> dict[str, dict[str, Any]]:
    """One rung for each PriorityClass and WorkloadPriorityClass of a name."""
    pods = {source.name: source for source in by_kind(sources, "PriorityClass")}
    queue = {source.name: source for source in by_kind(sources, "WorkloadPriorityClass")}
    ladder: dict[str, dict[str, Any]] = {}
    for name in dict.fromkeys([*pods, *queue]):
        source = pods.get(name) or queue[name]
        rung: dict[str, Any] = {"value": source.body.get("value")}
        if name in pods and name in queue:
            value = queue[name].body.get("value")
            if value != rung["value"]:
                rung["workloadValue"] = value
        if source.body.get("description"):
            rung["description"] = source.body["description"]
        if source.body.get("preemptionPolicy", "PreemptLowerPriority") != "PreemptLowerPriority":
            rung["preemptionPolicy"] = source.body["preemptionPolicy"]
        if source.body.get("globalDefault"):
            rung["globalDefault"] = True
        ladder[name] = rung
    for name, value in options.priorities.items():
        if name not in ladder:
            ladder[name] = {"value": value}
            log.derived(f"priority class {name}: {value} by --priority-class")
    return ladder
