"""What a prediction is asked with and what it answers: the two JSON contracts of ``sglgate kv``."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sglgate.errors import MisuseError, nearest


class Speculative(BaseModel):
    """The speculative part of a server's arguments. An empty object means: none."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    algorithm: str | None = None
    num_steps: int = Field(default=3, ge=1)
    eagle_topk: int = Field(default=1, ge=1)
    num_draft_tokens: int = Field(default=4, ge=1)
    draft_layers: int | None = Field(default=None, ge=0)
    draft_model_config: dict[str, Any] | str | None = None

    @property
    def active(self) -> bool:
        """Whether any algorithm is named."""
        return self.algorithm is not None

    @property
    def has_draft_pool(self) -> bool:
        """Whether a draft with KV layers of its own is charged or allocated (NGRAM has none)."""
        return self.active and str(self.algorithm).upper() in ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE")


class Question(BaseModel):
    """One server as it would be launched, on memory as it was read or is expected.

    ``pre_gib`` is the free memory before weights, ``avail_gib`` after them: the smallest over the ranks, in
    GiB (SGLang prints it as "GB"). They are taken as rounded to two decimals, as SGLang's log prints them,
    unless ``rounding_gib`` says otherwise; 0 says that they are the very readings that sized the pool, so
    that nothing lies between. ``rank_spread_gib``: how far another rank may lie below (0 where the figures
    are the smallest of all ranks already). ``dsa_raw_rows``: whether a DSA model's backend (trtllm) reads
    plain fp8 rows.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    sglang_version: str | None = None
    model_config_: dict[str, Any] | str = Field(alias="model_config")
    tp_size: int = Field(default=1, ge=1)
    pp_size: int = Field(default=1, ge=1)
    dp_attention: int | bool = Field(default=1)
    dtype: str = "auto"
    kv_cache_dtype: str = "auto"
    mem_fraction_static: float | None = Field(default=None, gt=0, lt=1)
    pre_gib: float | None = Field(default=None, gt=0)
    avail_gib: float | None = None
    page_size: int = Field(default=1, ge=1)
    max_total_tokens: int | None = Field(default=None, ge=1)
    speculative: Speculative | None = None
    gpu_total_mib: float | None = Field(default=None, gt=0)
    # Beyond the contract: what narrows an interval when it is known. Every one may be left out.
    weights_gib: float | None = Field(default=None, ge=0)
    rounding_gib: float = Field(default=0.005, ge=0)
    rank_spread_gib: float | None = Field(default=None, ge=0)
    device: str = Field(default="cuda", pattern="^(cuda|cpu)$")
    context_length: int | None = Field(default=None, ge=1)
    max_running_requests: int | None = Field(default=None, ge=1)
    disable_radix_cache: bool = False
    swa_full_tokens_ratio: float = Field(default=0.8, gt=0, le=1)
    mamba_full_memory_ratio: float = Field(default=0.9, gt=0)
    max_mamba_cache_size: int | None = Field(default=None, ge=1)
    mamba_ssm_dtype: str | None = None
    mamba_extra_slots: int = Field(default=0, ge=0, le=2)
    dsa_raw_rows: bool | None = None
    chunked_prefill_size: int | None = None
    cuda_graph_max_bs: int | None = Field(default=None, ge=1)
    prefill_graphs: bool | None = None
    request_tokens: int = Field(default=4096, ge=1)
    observed_tokens: int | None = Field(default=None, ge=1)

    @property
    def exact_readings(self) -> bool:
        """Whether the memory figures are the readings that sized the pool, unrounded."""
        return self.rounding_gib == 0

    @property
    def draft(self) -> Speculative | None:
        """The speculation, when there is any."""
        return self.speculative if self.speculative is not None and self.speculative.active else None


class Verdict(StrEnum):
    """What a prediction comes to."""

    FITS = "fits"
    TOO_SMALL = "too_small"  # a pool, but not for one request of the asked length
    EXHAUSTED = "exhausted"  # no memory is left for a pool: the server cannot start
    UNDETERMINED = "undetermined"  # a figure is missing, or rounding decides
    DECLINED = "declined"  # the model's cache is not modelled


class Prediction(BaseModel):
    """The answer. Counts are per rank; None where nothing honest can be said."""

    model_config = ConfigDict(frozen=True)

    tokens: int | None
    tokens_min: int | None
    tokens_max: int | None
    bytes_per_token: float | None
    pool_gib: float | None
    implied_fraction: float | None
    verdict: Verdict
    notes: tuple[str, ...] = ()
    details: dict[str, Any] = Field(default_factory=dict)

    def contract(self) -> dict[str, Any]:
        """The eight fields of the JSON contract, in its order."""
        return self.model_dump(mode="json", exclude={"details"})


def read_question(raw: str | bytes, file: object = None) -> Question:
    """Parse the JSON contract.

    Raises:
        MisuseError: not JSON, an unknown key, or a value out of range; names the key.
    """
    try:
        data = json.loads(raw)
    except ValueError as error:
        raise MisuseError(f"is not JSON: {error}", file=file) from error
    if not isinstance(data, dict):
        raise MisuseError("must be a JSON object", file=file, value=type(data).__name__)
    return ask(data, file)


def read_question_file(path: Path) -> Question:
    """The contract from a file; a relative ``model_config`` path counts from that file's folder."""
    try:
        raw = path.read_text(encoding="utf-8")
    except OSError as error:
        raise MisuseError(f"cannot be read: {error.strerror or error}", file=path) from error
    question = read_question(raw, path)
    source = question.model_config_
    if isinstance(source, str) and not Path(source).is_absolute():
        return question.model_copy(update={"model_config_": str(path.parent / source)})
    return question


def ask(data: dict[str, Any], file: object = None) -> Question:
    """Build a question from plain values.

    Raises:
        MisuseError: an unknown key or a value out of range; names the key.
    """
    try:
        return Question.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        expected = None
        if first["type"] == "extra_forbidden":
            known = [field.alias or name for name, field in Question.model_fields.items()]
            close = nearest(key.rsplit(".", 1)[-1], known)
            expected = f"did you mean {close!r}?" if close else "leave it out"
        value = None if first["type"] == "missing" else first.get("input")
        raise MisuseError(first["msg"], file=file, key=key, value=value, expected=expected) from error
