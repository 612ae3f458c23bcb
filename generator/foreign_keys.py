"""Keys that people carry over from manifests and other tools, and what to write for them."""

from __future__ import annotations

# section → {their key: what to write here}. Lower case without separators, so that any spelling of
# the same words is found.
FOREIGN_KEYS: dict[str, dict[str, str]] = {
    "checkpointing": {
        "peerranks": "peers: (how many copies; the replicator chooses the ranks)",
        "peerspernode": "peers: (how many copies on other nodes)",
        "cloudstoragebucketname": "bucket: (and directory: for a folder inside it)",
        "gcsfusemountoptions": "mountOptions:",
        "nodeselector": "nodePool: (the labels follow from the pool)",
        "machinetype": "nodePool: (the machine type is the pool's)",
        "backupintervalminutes": "backup: {intervalMinutes: …}",
        "backupintervalsteps": "backup: {intervalSteps: …}",
        "ramdisksize": "inMemoryVolumeSize:",
        "hns": "hierarchicalNamespace:",
    },
    "nodePools": {
        "accelerator": "machineType: (the catalog knows its accelerator)",
        "numnodes": "nodes:",
        "numslices": "slices:",
        "tputopology": "topology:",
    },
    "queueing": {
        "cohortname": "cohort:",
        "nominalquota": "nominal:",
        "resourceflavors": "flavors:",
        "resourcegroups": "flavors: (one group is made of all of a queue's flavors)",
        "coveredresources": "resources:",
        "nodeselector": "nodePool: or nodeLabels:",
        "parentname": "parent:",
        "admissionchecksstrategy": "admissionChecks:",
    },
    "workloads": {
        "replicas": "slices: (TPU), or replicatedJobs:",
        "parallelism": "nodes: (GPU and CPU); on TPU it follows from the pool",
        "completions": "nodes: (GPU and CPU); on TPU it follows from the pool",
        "maxrestarts": "failurePolicy: {maxRestarts: …}",
        "restartstrategy": "failurePolicy: {restartStrategy: …}",
        "priorityclassname": "priority: (pods and queue), or priorityClass:",
        "queuename": "queue:",
        "serviceaccountname": "serviceAccount:",
        "suspend": "nothing: Kueue owns it",
        "ttlsecondsafterfinished": "nothing: Argo CD would start a finished job again",
        "limits": "resources: {cpu: …, memory: …}; accelerators follow from the pool",
        "requests": "resources: {cpu: …, memory: …}; accelerators follow from the pool",
        "containers": "image:, command:, args: of the workload itself",
    },
    "cluster": {
        "projectid": "project: {id: …, number: …}",
        "projectnumber": "project: {id: …, number: …}",
        "region": "location:",
        "zone": "location:",
        "version": "gkeVersion:",
        "autopilot": "nothing: Autopilot is not supported",
    },
}


def ours(section: str, key: str) -> str | None:
    """What to write here instead of a key from elsewhere, None if it is not known."""
    shape = key.lower().replace("-", "").replace("_", "")
    return FOREIGN_KEYS.get(section, {}).get(shape)
