"""What the public reference finds in a backup that our agents made of the recorded input.

The reference is in no package registry, so it does not run here. What it does with a backup is
little, though: of the newest `YYYY-MM-DD_HH-MM` folder (or the one in `restore.version`) it takes
every `<job>-sN-nR-wW.meta`, uses its text as it is, and copies `<text>.data`, of which the name has
to look like a hash and is never computed again. These rules (src/replicator/restore.py and
file_naming.py at the fixtures' commit) are applied to its own recorded backup and to ours of the
same data; fixtures/reference/README.md tells of the real thing restoring such backups.
"""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from backup_cases import tree_of

from replicator.backups import JobBackups
from replicator.demo.cluster import DemoCluster
from replicator.storage import ObjectStorage

FIXTURES = Path(__file__).parent / "fixtures" / "reference"
CASES = {
    "fixture-files": ("pytorch", 2, 3, {}),
    "fixture-torch": ("pytorch.distributed", 1, 3, {}),
    "fixture-orbax": ("orbax", 1, 7, {"assume_data_parallelism": 2}),
}
BACKUP = re.compile(r"\d{4}-\d{2}-\d{2}_\d{2}-\d{2}")
DATA = re.compile(r"D?[a-z0-9]{64}\.data")

Found = dict[tuple[int, int, int], bytes | dict[str, bytes | None]]


@pytest.fixture
def exits() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def recorded(job: str) -> Path:
    (backup,) = (FIXTURES / job).iterdir()
    return backup


def as_the_reference_reads(backup: Path, job: str) -> Found:
    """(step, node, worker) -> the data that it would put into that node's volume."""
    meta = re.compile(rf"{re.escape(job)}-s([0-9]+)-n([0-9]+)-w([0-9]+)\.meta")
    found: Found = {}
    for entry in backup.glob("*.meta"):
        name = meta.fullmatch(entry.name)
        assert name, f"{entry.name}: it warns of such a name"
        data = f"{entry.read_text()}.data"
        assert DATA.fullmatch(data), data
        path = backup / data
        found[int(name[1]), int(name[2]), int(name[3])] = (
            tree_of(path) if path.is_dir() else path.read_bytes()
        )
    return found


def save_what_was_recorded(cluster: DemoCluster) -> None:
    """Each node saves what the reference's node had saved."""
    framework, workers, step, _ = CASES[cluster.job]
    source = recorded(cluster.job)
    for rank, node in enumerate(cluster.nodes):
        for worker in range(workers):
            shard = f"{cluster.job}-s{step}-n{rank}-w{worker}"
            data = source / f"{(source / f'{shard}.meta').read_text()}.data"
            name = f"{shard}.save" if framework == "pytorch" else str(step)
            copy = shutil.copy if data.is_file() else shutil.copytree
            copy(data, node.local / f"{name}.tmp")
            (node.local / f"{name}.tmp").rename(node.local / name)


def backed_up(job: str, root: Path, exits: ExitStack) -> Path:
    """The folder of a backup that two agents have made of the recorded data."""
    framework, workers, _, extra = CASES[job]
    cluster = exits.enter_context(DemoCluster(root, 2, job=job, framework=framework))
    cluster.start_all()
    cluster.begin(workers_per_node=workers, backup_interval_minutes=0, **extra)
    assert cluster.wait_restored() is None
    save_what_was_recorded(cluster)
    folder = cluster.backup_dir / job
    cluster.wait_for(lambda: list(folder.glob("*/backup.seal")), 60, "the backup")
    (backup,) = folder.iterdir()
    return backup


@pytest.mark.parametrize("job", sorted(CASES))
def test_it_finds_the_same_shards_and_bytes_as_in_its_own(
    job: str, tmp_path: Path, exits: ExitStack
) -> None:
    theirs, ours = recorded(job), backed_up(job, tmp_path, exits)
    assert BACKUP.fullmatch(ours.name)
    assert as_the_reference_reads(ours, job) == as_the_reference_reads(theirs, job)
    assert len(list(ours.glob("*.data"))) == len(list(theirs.glob("*.data")))  # none twice
    more = {p.name for p in ours.iterdir() if p.suffix not in (".meta", ".data")}
    own = {name for name in more if not name.endswith(".manifest")}
    assert own == {"backup.format", "backup.seal"}


def test_files_have_its_own_names_and_metas_byte_for_byte(tmp_path: Path, exits: ExitStack) -> None:
    """Directories are named by a digest that covers their file names, which its hash does not."""
    theirs, ours = recorded("fixture-files"), backed_up("fixture-files", tmp_path, exits)
    files = {p.name: p.read_bytes() for p in theirs.iterdir()}
    assert {p.name: p.read_bytes() for p in ours.iterdir() if p.name in files} == files


def test_restore_version_is_the_name_of_the_folder_it_looks_for(
    tmp_path: Path, exits: ExitStack
) -> None:
    ours = backed_up("fixture-torch", tmp_path, exits)
    storage = ObjectStorage.open(f"file://{ours.parent.parent}")
    asyncio.run(JobBackups(storage, "fixture-torch").force_restore(ours.name))
    version = (ours.parent / "restore.version").read_text()
    assert (ours.parent / version.strip()).is_dir()
    assert version.strip() == ours.name
