"""The ground that every inventory model stands on: strict, closed, frozen, and with plain words for
faults."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
)
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError

from schemas import names
from schemas.inventory.field_docs import field_docs
from schemas.quantity import QuantityError, canonical, parse_quantity


class InventoryModel(BaseModel):
    """A section of the inventory. Keys are camelCase in YAML; an unknown key is an error."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        alias_generator=to_camel,
        validate_by_name=False,
        validate_by_alias=True,
    )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        shown = handler(schema)
        properties = handler.resolve_ref_schema(shown)["properties"]
        docs = field_docs(cls)
        for name, info in cls.model_fields.items():
            if name in docs:
                properties[info.alias]["description"] = docs[name]
        return shown


def fault(message: str, fix: str = "") -> PydanticCustomError:
    """Make an error whose text is shown to the user as it stands, with the fix apart."""
    return PydanticCustomError("stowplan", "{message}", {"message": message, "fix": fix})


# Placeholders that the GKE documents print and users paste.
_PLACEHOLDER_WORDS = frozenset(
    "PROJECT_ID PROJECT_NUMBER GCS_BUCKET GCS_PATH BUCKET_NAME MACHINE_TYPE TOLERATION_KEY "
    "IN_MEMORY_VOLUME_SIZE MTC_CONFIG_NAME CLUSTER_NAME CLUSTER_VERSION CLUSTER_LOCATION "
    "NODE_LOCATION NUM_NODES CHECKPOINT_DIR JOB_NAME BACKUP_NAME IMAGE_LOCATION".split()
)
_ANGLE = re.compile(r"<[A-Z][A-Z _-]*>")
_WORD = re.compile(r"[A-Z][A-Z_]{3,}[A-Z]")


def placeholder_in(text: str) -> str | None:
    """Return a placeholder of the source documents that was left in a text, or None."""
    if "<" in text and (angle := _ANGLE.search(text)):
        return angle[0]
    for word in _WORD.findall(text):
        if word in _PLACEHOLDER_WORDS:
            return str(word)
    return None


def _named(kind: str, problem: Any) -> AfterValidator:
    def check(value: str) -> str:
        placeholder = placeholder_in(value)
        if placeholder:
            raise fault(
                f"{placeholder!r} is a placeholder from the documents", f"write a real {kind}"
            )
        wrong = problem(value)
        if wrong:
            near = re.sub("[^a-z0-9]+", "-", value.lower()).strip("-")
            fix = f"write one such as {near}" if near and not problem(near) else ""
            raise fault(f"{value!r} is no {kind}: it {wrong}", fix)
        return value

    return AfterValidator(check)


def _cpu_or_count(value: Any) -> Any:
    """Let YAML numbers stand for quantities of things that are counted: ``cpu: 4``."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return str(Decimal(repr(value)))


def _quantity(value: str) -> str:
    try:
        if parse_quantity(value) < 0:
            raise fault(f"{value!r} is negative", "write a quantity of zero or more")
        return canonical(value)
    except QuantityError as error:
        raise fault(error.message, error.hint) from None


_MEMORY_UNIT = re.compile(r"[0-9.]+(?:[kMGTPE]|[KMGTPE]i)")
_RAM_DISK = re.compile(r"[1-9][0-9]*(?:Mi|Gi|Ti)")


def _bare_number(value: Any) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise fault(
            f"{value} has no unit, so it would mean {value} bytes",
            "write the unit, such as 64Gi",
        )
    return value


def _memory(value: str) -> str:
    text = _quantity(value)
    if not _MEMORY_UNIT.fullmatch(value):
        raise fault(
            f"{value!r} has no unit, so it would mean bytes", "write the unit, such as 64Gi"
        )
    return text


def _ram_disk(value: str) -> str:
    if not _RAM_DISK.fullmatch(value):
        memory = _memory(value)  # names the usual mistakes better than the pattern does
        raise fault(
            f"{value!r} is not a whole number of Mi, Gi or Ti; the controller rounds it down "
            "without a word",
            "write a whole number with Gi" if memory else "",
        )
    return value


Name = Annotated[str, _named("name", names.dns_label_problem)]
"""A DNS-1123 label: a Kubernetes name of up to 63 characters."""

ObjectName = Annotated[str, _named("object name", names.dns_subdomain_problem)]
"""A DNS-1123 subdomain: the name of most Kubernetes objects."""

LabelKey = Annotated[str, _named("label key", names.label_key_problem)]
LabelValue = Annotated[str, _named("label value", names.label_value_problem)]
Labels = dict[LabelKey, LabelValue]
Annotations = dict[LabelKey, str]

Bucket = Annotated[str, _named("bucket name", names.bucket_problem)]

Quantity = Annotated[
    str,
    BeforeValidator(_cpu_or_count, json_schema_input_type=str | int | float),
    AfterValidator(_quantity),
]
"""A Kubernetes quantity in canonical form; a YAML number stands for itself."""

Memory = Annotated[str, BeforeValidator(_bare_number), AfterValidator(_memory)]
"""A quantity of bytes with its unit written; kept in canonical form."""

RamDiskSize = Annotated[str, BeforeValidator(_bare_number), AfterValidator(_ram_disk)]
"""``inMemoryVolumeSize``: a whole number of Mi, Gi or Ti, the form that no controller misreads."""


def _text(value: str) -> str:
    placeholder = placeholder_in(value)
    if placeholder:
        raise fault(
            f"{placeholder!r} is a placeholder from the documents",
            "write the value that it stands for",
        )
    return value


Text = Annotated[str, AfterValidator(_text)]
"""Free text in which no placeholder of the source documents was left."""


def _decimal(value: Any) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Decimal(repr(value))
    return value


Number = Annotated[Decimal, BeforeValidator(_decimal), Field(strict=True, gt=0)]
"""A positive number, held exactly."""


def _image(value: str) -> str:
    if placeholder_in(value):
        raise fault(
            f"{value!r} is a placeholder from the documents",
            "write the image, with its tag or digest",
        )
    if not value or re.search(r"\s", value):
        raise fault(f"{value!r} is no image reference", "write registry/repository:tag")
    return value


def _path(value: str) -> str:
    if placeholder_in(value):
        raise fault(f"{value!r} is a placeholder from the documents", "write the directory")
    if not value.startswith("/") or ".." in value.split("/") or "//" in value or ":" in value:
        raise fault(f"{value!r} is no absolute path", "write one such as /checkpoint")
    return value.rstrip("/") or "/"


Image = Annotated[str, AfterValidator(_image)]
AbsolutePath = Annotated[str, AfterValidator(_path)]


def _data_key(value: str) -> str:
    if not re.fullmatch(r"(?!\.$|\.\.)[-._a-zA-Z0-9]{1,253}", value):
        raise fault(
            f"{value!r} is no key of a Secret or ConfigMap", "use letters, digits, '-', '_' and '.'"
        )
    return value


class KeyRef(InventoryModel):
    """A key of a Secret or ConfigMap."""

    name: ObjectName
    """The object's name."""
    key: Annotated[str, AfterValidator(_data_key)]
    """The key in it."""


class Toleration(InventoryModel):
    """A toleration as Kubernetes writes it."""

    key: str | None = None
    """The taint's key; absent means every key and needs ``operator: Exists``."""
    operator: str = "Exists"
    """``Exists`` (any value) or ``Equal``."""
    value: str | None = None
    """The taint's value, for ``Equal``."""
    effect: str | None = None
    """``NoSchedule``, ``PreferNoSchedule``, ``NoExecute``, or absent for every effect."""
    toleration_seconds: int | None = None
    """Seconds for which ``NoExecute`` is tolerated; absent means for ever."""


class Taint(InventoryModel):
    """A taint that a node pool's nodes carry."""

    key: LabelKey
    """The taint's key."""
    value: LabelValue = ""
    """The taint's value."""
    effect: str
    """``NoSchedule``, ``PreferNoSchedule`` or ``NoExecute``."""
