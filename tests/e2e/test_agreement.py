"""What `stowplan check` rejects, the API server rejects, and the reverse."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path

import pytest

from .agreement import Judge, compare, table
from .controlplane.client import Manifest
from .fleets import ROOT, CompiledCluster, example_clusters
from .known_differences import KNOWN, document
from .mutation import Mutation, Mutator, fetch_schemas
from .page import OUTPUT
from .planes import Planes

#: Mutations for each pair of versions.
MUTATIONS = 2000
SEED = 20261130
PAGE = ROOT / "docs" / "agreement.md"
#: Kinds with more rules get more mutations.
WEIGHTS = {"JobSet": 4, "ClusterQueue": 4, "ResourceFlavor": 2, "Topology": 2, "Cohort": 2}

schema = pytest.importorskip("generator.checks.schema", reason="the tree has no schema checks")


def clusters_by_versions() -> list[list[CompiledCluster]]:
    """The example clusters, grouped by the versions that they ask for."""
    groups: dict[tuple[str, str], list[CompiledCluster]] = defaultdict(list)
    for cluster in example_clusters():
        groups[cluster.kueue, cluster.jobset].append(cluster)
    return list(groups.values())


@pytest.mark.e2e
@pytest.mark.parametrize(
    "clusters", clusters_by_versions(), ids=lambda group: f"kueue-{group[0].kueue}"
)
def test_we_and_the_server_agree_on_mutated_manifests(
    clusters: list[CompiledCluster], planes: Planes
) -> None:
    first = clusters[0]
    plane = planes.for_validation(first.kueue, first.jobset)
    if (plane.kueue, plane.jobset) != (first.kueue, first.jobset):
        pytest.skip(
            f"compares with Kueue {first.kueue} and JobSet {first.jobset}; this cluster has"
            f" {plane.kueue or 'an unknown version'} and {plane.jobset or 'an unknown version'}"
        )
    manifests = [manifest for cluster in clusters for manifest in cluster.manifests()]
    for manifest in manifests:
        if manifest["metadata"].get("namespace"):
            plane.ensure_namespace(manifest["metadata"]["namespace"])
    mutations = mutate(manifests, Mutator(fetch_schemas(plane.client, manifests), SEED))
    found = compare(plane.client, judge_for(first), mutations)
    write(OUTPUT / f"agreement-kueue-{first.kueue}.md", table(found))
    unknown = [row for row in found if not any(known.covers(row) for known in KNOWN)]
    assert not unknown, f"{len(unknown)} of {len(mutations)} mutations\n{table(unknown)}"


def test_the_page_lists_the_known_differences() -> None:
    assert PAGE.read_text() == document()


def mutate(manifests: list[Manifest], mutator: Mutator) -> list[Mutation]:
    """Mutations spread over kinds by weight, not by how many manifests a kind has."""
    kinds: dict[str, list[Manifest]] = defaultdict(list)
    for manifest in manifests:
        kinds[manifest["kind"]].append(manifest)
    names = sorted(kinds)
    rng = random.Random(SEED)
    chosen = rng.choices(names, [WEIGHTS.get(name, 1) for name in names], k=MUTATIONS)
    return [mutator.mutate(rng.choice(kinds[name])) for name in chosen]


def judge_for(cluster: CompiledCluster) -> Judge:
    """Our verdict for the versions of a cluster."""
    from generator.findings import Severity
    from schemas.versions import Versions

    versions = Versions.of(cluster.kueue.removeprefix("v"), cluster.jobset.removeprefix("v"))

    def judge(manifest: Manifest) -> list[str]:
        findings = schema.check_schema(manifest, versions)
        return [f"{f.rule} {f.message}" for f in findings if f.severity is Severity.ERROR]

    return judge


def write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
