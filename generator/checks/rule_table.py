"""The rules that are code, as a table: YAML, schemas, waivers. Those on references stand beside
their code, in :mod:`generator.checks.references.rule_table`.

Columns: id, title, severity, why, fix, reference, source.
"""

from __future__ import annotations

from generator.checks.references.rule_table import REFERENCES, Row
from generator.findings import Severity

_E, _W, _N = Severity.ERROR, Severity.WARNING, Severity.NOTE
_SCHEMA = "generator/checks/schema.py"
_CRD = "the vendored CustomResourceDefinition or core schema (schemas/upstream/sources.json)"

BUILT_IN: tuple[Row, ...] = (
    (
        "YML001",
        "A file is YAML that Go and Python read alike",
        _E,
        "kubectl and Argo CD read manifests with a Go parser. A file that it refuses, or reads "
        "otherwise than its author, deploys nothing or something else.",
        "Mend the line that the message names.",
        "YAML 1.1 as sigs.k8s.io/yaml reads it",
        "generator/yaml_load.py",
    ),
    (
        "YML002",
        "Indentation says what belongs together",
        _E,
        "Text pasted from a page or a chat loses or gains spaces. The reader moved lines to where "
        "their keys can stand, to judge the rest; a cluster would refuse the file.",
        "Indent the line as the message says.",
        "GKE documentation as printed (tolerations of the CheckpointConfiguration example)",
        "generator/checks/tolerant.py",
    ),
    (
        "YML003",
        "Documents are parted by a line of exactly ---",
        _E,
        "Tools that split a file on such lines, conftest among them, read only the first document "
        "of a file whose separators are indented or followed by text; the rest is lost in silence.",
        "Write --- alone at the start of the line.",
        "conftest, parser/yaml/yaml.go",
        "generator/checks/tolerant.py",
    ),
    (
        "SCH001",
        "The object's API and kind exist",
        _E,
        "The API server answers with 'no matches for kind'.",
        "Write the apiVersion and kind that the cluster serves.",
        _CRD,
        _SCHEMA,
    ),
    (
        "SCH002",
        "Every field is one that the kind has",
        _E,
        "kubectl refuses an unknown field; a client without strict validation, Argo CD among them, "
        "has it dropped without a word, and the setting never takes effect.",
        "Write the nearest valid name, or remove the field.",
        _CRD,
        "generator/checks/schema_errors.py",
    ),
    (
        "SCH003",
        "Every value has its field's type",
        _E,
        "The API server refuses the object.",
        "Write the type that the message asks for; quote what must be a string.",
        _CRD,
        "generator/checks/schema_errors.py",
    ),
    (
        "SCH004",
        "Required fields are there",
        _E,
        "The API server refuses the object.",
        "Add the field.",
        _CRD,
        "generator/checks/schema_errors.py",
    ),
    (
        "SCH005",
        "Every value is one that its field allows",
        _E,
        "The API server refuses a value outside its enum, range, length or pattern.",
        "Write an allowed value.",
        _CRD,
        "generator/checks/schema_errors.py",
    ),
    (
        "SCH006",
        "Quantities are quantities",
        _E,
        "64GB, 64Gib and '64 Gi' are no Kubernetes quantities and are refused.",
        "Write a number with a unit such as 64Gi or 500m.",
        "k8s.io/apimachinery/pkg/api/resource/quantity.go",
        "generator/checks/schema_errors.py",
    ),
    (
        "SCH007",
        "Keyed lists have each key once",
        _E,
        "The API server refuses a second entry of one key in a custom resource; in a built-in kind "
        "the last entry wins and server-side apply refuses.",
        "Merge the two entries or remove one.",
        "Kubernetes documentation, merge strategy (x-kubernetes-list-type)",
        "generator/checks/structure.py",
    ),
    (
        "SCH008",
        "The schema's CEL rules hold",
        _E,
        "The API server evaluates x-kubernetes-validations and refuses what breaks one.",
        "See the rule in the message.",
        _CRD,
        "generator/checks/cel.py",
    ),
    (
        "SCH009",
        "The API version is not deprecated",
        _W,
        "The API server accepts it with a warning today and stops serving it in a later release.",
        "Write the newer apiVersion; fields may have new names.",
        "Kueue CHANGELOG-0.16",
        _SCHEMA,
    ),
    (
        "SCH010",
        "Names, labels and annotations are well formed",
        _E,
        "The API server refuses a name or label outside the grammar.",
        "Respell it.",
        "k8s.io/apimachinery/pkg/api/validation",
        "generator/checks/metadata.py",
    ),
    (
        "SCH011",
        "A cluster-scoped object has no namespace",
        _W,
        "The API server drops the namespace; people and tools that compare believe it.",
        "Remove metadata.namespace.",
        "tried on a Kubernetes 1.36 API server",
        "generator/checks/metadata.py",
    ),
    (
        "SCH012",
        "A kind without a schema is not judged",
        _N,
        "Its fields may be wrong; this says that nobody looked.",
        "Nothing, or check it with a tool that has its schema.",
        "schemas/upstream/sources.json",
        _SCHEMA,
    ),
    (
        "SCH013",
        "A pod template is one that the API server accepts as a pod",
        _E,
        "A custom resource is stored with any pod template; the refusal comes when its controller "
        "creates pods, and shows only in events.",
        "Mend the field that the message names.",
        "k8s.io/kubernetes/pkg/apis/core/validation",
        "generator/checks/pod_spec.py",
    ),
    (
        "SCH014",
        "Kueue's and JobSet's webhooks accept the object",
        _E,
        "The rule is in the controller's admission webhook, not in the CRD; the webhook refuses.",
        "See the message.",
        "Kueue pkg/webhooks, JobSet pkg/webhooks (generator/checks/webhooks.py names each)",
        "generator/checks/webhooks.py",
    ),
    (
        "SCH015",
        "The cluster's versions are ones whose schemas are kept",
        _W,
        "Without the schema of its release the cluster is judged by another release's.",
        "State a known version, or add the schema (python -m schemas.kinds.vendor).",
        "schemas/versions.py",
        "generator/checks/run.py",
    ),
    (
        "POL001",
        "The policies can judge every object",
        _E,
        "An object that the engine cannot judge may break any rule.",
        "Mend the fields that the other findings name.",
        "this project",
        "generator/checks/run.py",
    ),
    (
        "WVR001",
        "A waiver is complete",
        _E,
        "A waiver without a reason, an owner or an end is a hole.",
        "Write rule, resource, reason, owner and expires.",
        "this project",
        "generator/checks/waivers.py",
    ),
    (
        "WVR002",
        "No waiver has expired",
        _E,
        "The decision was for a while, and the while is over.",
        "Mend the finding, or decide again.",
        "this project",
        "generator/checks/waivers.py",
    ),
    (
        "WVR003",
        "Every waiver hides something",
        _E,
        "A waiver that hides nothing would hide the next mistake.",
        "Remove it.",
        "this project",
        "generator/checks/waivers.py",
    ),
    *REFERENCES,
)
