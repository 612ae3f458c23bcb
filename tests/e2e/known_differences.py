"""Where our verdict and the API server's differ on purpose; rendered to docs/agreement.md."""

from __future__ import annotations

from .agreement import KnownDifference

SERVER = "only the server rejects"
OURS = "only we reject"

KNOWN: tuple[KnownDifference, ...] = (
    KnownDifference(
        SERVER,
        r'namespaces "[^"]*" not found',
        "The namespace may exist in the cluster without being in the files; the reference checks"
        " judge whole clusters, not one object.",
    ),
    KnownDifference(
        SERVER,
        r"no matches for kind",
        "An API that we know nothing of may be a custom resource of the cluster: a note, no error.",
    ),
    KnownDifference(
        SERVER,
        r"metadata\.(generateName|finalizers|ownerReferences|generation)|parsing time",
        "Metadata that servers and controllers write and nobody keeps in Git: its syntax is not"
        " checked.",
    ),
    KnownDifference(
        SERVER,
        r"CronJob.*spec\.(jobTemplate|schedule)",
        "Pod validation of fields that no training manifest uses (device claims, probes, seccomp"
        " and AppArmor profiles on disk, two sources for one volume, …) is left to the server.",
    ),
    KnownDifference(
        OURS,
        r"spec\.replicatedJobs\[\d+\]\.template\.spec\.template|SCH013",
        "The server stores the JobSet and refuses its pods later, when nobody looks: we judge the"
        " pod template at once.",
    ),
    KnownDifference(
        OURS,
        r"(nominalQuota|replicatedJobs\[\d+\]\.name|admissionMode|admissionChecks\[\d+\]\.name) is"
        r" required and missing|spec\.cohort(Name)?: '' does not match",
        "The mutating webhooks decode and encode the object before the schema is asked, which fills"
        " in or drops an empty value: a quota of 0, a job without a name. Nobody means that.",
    ),
    KnownDifference(
        OURS,
        r"'[^']* ' is not a Kubernetes quantity",
        "The same decoder forgives a blank after a quantity.",
    ),
    KnownDifference(
        OURS,
        r"ownerReferences",
        "The server drops the metadata of a template that it does not use.",
    ),
)


def document(known: tuple[KnownDifference, ...] = KNOWN) -> str:
    """The page docs/agreement.md."""
    lines = [
        "# Where stowplan and an API server disagree",
        "",
        "`make e2e` changes good manifests at random, a few thousand times, and compares the",
        "verdict of `stowplan check` with that of a real API server that runs Kueue's and",
        "JobSet's webhooks. These differences stay; any other fails the run.",
        "",
        "| who rejects | the message matches | why it stays |",
        "|---|---|---|",
    ]
    for row in known:
        pattern = row.pattern.replace("|", "\\|")
        lines.append(f"| {row.direction} | `{pattern}` | {row.reason} |")
    return "\n".join(lines) + "\n"
