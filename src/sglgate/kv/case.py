"""A question with everything worked out that does not depend on memory, or the reason why it cannot be."""

from __future__ import annotations

from dataclasses import dataclass

from sglgate.kv.cell import FP4, Cell, Split, cell_for, resolve_kv_dtype
from sglgate.kv.geometry import Config, Family, Geometry, draft_layer_count, load_config, read_geometry
from sglgate.kv.question import Question
from sglgate.kv.sizing import Sizing
from sglgate.kv.statepool import radix_is_off
from sglgate.kv.versions import NEWEST_READ, Rules, rules_for

_MODELLED_ALGORITHMS = ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "NGRAM")


@dataclass(frozen=True)
class Case:
    """A question with everything worked out that does not depend on memory."""

    question: Question
    rules: Rules
    config: Config
    geometry: Geometry
    split: Split
    kv_dtype: str = ""
    cell: Cell | None = None
    draft_row: int | None = None
    draft_layers: int = 0
    declined: str = ""
    notes: tuple[str, ...] = ()

    @property
    def sizing(self) -> Sizing:
        """The pool arithmetic of this case.

        Raises:
            ValueError: the case is declined.
        """
        if self.cell is None:
            raise ValueError(self.declined)
        return Sizing(self.question, self.rules, self.geometry, self.split, self.cell)


def prepare(question: Question, version: str | None = None) -> Case:
    """Read the model, the split and the cell of a question, under its own release or another."""
    rules = rules_for(version or question.sglang_version or ".".join(map(str, NEWEST_READ)))
    config = load_config(question.model_config_)
    geometry = read_geometry(config, rules)
    split = Split(question.tp_size, question.pp_size, _dp(question))
    question = question.model_copy(update={"disable_radix_cache": radix_is_off(geometry.architecture, question, rules)})
    case = Case(question, rules, config, geometry, split)
    reason = geometry.declined or _why_declined(case)
    if reason:
        return Case(question, rules, config, geometry, split, declined=reason)
    kv_dtype, notes = resolve_kv_dtype(question.kv_cache_dtype, question.dtype, geometry)
    layers, draft_row, draft_notes = _draft(case, kv_dtype)
    cell = cell_for(
        geometry,
        rules,
        split,
        kv_dtype,
        draft_layers=layers,
        swa_ratio=question.swa_full_tokens_ratio,
        dsa_raw_rows=question.dsa_raw_rows,
    )
    if cell.sizing_max > cell.sizing:
        notes += (f"the backend decides between {cell.sizing:.0f} and {cell.sizing_max:.0f} bytes a token",)
    notes += geometry.notes + draft_notes + _version_notes(question, rules)
    return Case(question, rules, config, geometry, split, kv_dtype, cell, draft_row, layers, notes=notes)


def _why_declined(case: Case) -> str:
    asked, geometry, rules = case.question, case.geometry, case.rules
    draft = asked.draft
    if draft is not None and str(draft.algorithm).upper() not in _MODELLED_ALGORITHMS:
        return f"speculative algorithm {draft.algorithm}: its draft's share of the pool is not modelled"
    needs = draft is not None and draft.draft_layers is None and draft.draft_model_config is None
    if draft is not None and needs and str(draft.algorithm).upper() == "STANDALONE" and rules.draft_counted:
        return "a STANDALONE draft is charged by its layers: give draft_layers or draft_model_config"
    if geometry.family is Family.SWA:
        if asked.pp_size > 1:
            return "a sliding pool under pipeline parallelism is not modelled"
        if rules.request_cap_swa and asked.disable_radix_cache and asked.max_running_requests is not None:
            return (
                "without radix cache and with max_running_requests the sliding pool is sized by requests, "
                "which is not modelled"
            )
        if asked.kv_cache_dtype in FP4:
            return "an fp4 KV cache in a model with a sliding pool is not modelled"
        if geometry.architecture.startswith("MiMoV2") and rules.release < (0, 5, 9):
            return "MiMo-V2 before 0.5.9 counts its sliding layers twice in a way that is not modelled"
        if geometry.architecture.startswith("MiMoV2") and draft is not None:
            return "MiMo-V2's multi-layer draft has sliding pools of its own, which are not modelled"
        if rules.draft_windows_known and draft is not None and _slides(draft.draft_model_config):
            return "a draft with sliding layers beside a target with sliding layers is not modelled"
    if geometry.family is Family.DSA and asked.kv_cache_dtype == "auto":
        return (
            "kv_cache_dtype=auto of a DSA model depends on the GPU (fp8_e4m3 from compute capability 10, "
            'bfloat16 before); give the dtype of the log\'s "Using KV cache dtype" line'
        )
    if geometry.state is not None and draft is not None and str(draft.algorithm).upper() == "STANDALONE":
        return "a STANDALONE draft beside a state model is not modelled"
    return ""


def _slides(config: Config | str | None) -> bool:
    return config is not None and "sliding_attention" in (load_config(config).get("layer_types") or ())


def _draft(case: Case, kv_dtype: str) -> tuple[int, int | None, tuple[str, ...]]:
    draft = case.question.draft
    if draft is None or not draft.has_draft_pool:
        return 0, None, ()
    layers, row = draft.draft_layers, None
    notes: tuple[str, ...] = ()
    if draft.draft_model_config is not None:
        config = load_config(draft.draft_model_config)
        layers = draft_layer_count(config) if layers is None else layers
        row = draft_row_bytes(config, case.rules, case.split, kv_dtype, layers)
    if layers is None:
        declared = draft_layer_count(case.config) if str(draft.algorithm).upper() in ("EAGLE", "NEXTN") else 1
        layers = declared if declared < case.geometry.layer_count else 1
        notes = (f"draft_layers not given: {layers} KV layer(s) of the target's own shape are assumed",)
    if not case.rules.draft_counted:
        notes += (f"{case.rules.read_in} counts neither the draft's weights nor its KV here: both come on top",)
    return layers, row, notes


def draft_row_bytes(config: Config, rules: Rules, split: Split, kv_dtype: str, layers: int) -> int | None:
    """Bytes of one token in the draft's own pool, which has as many tokens as the target's. None when
    unmodelled."""
    geometry = read_geometry(config, rules)
    if not geometry.modelled or geometry.family is Family.SWA or not geometry.layer_count:
        return None
    whole = Split(split.tp, 1, split.dp)
    return cell_for(geometry, rules, whole, kv_dtype).row * layers // max(1, len(geometry.full_layers))


def _version_notes(question: Question, rules: Rules) -> tuple[str, ...]:
    if rules.extrapolated and question.sglang_version is not None:
        return (f"{question.sglang_version} was not read; the rules of {rules.read_in} are applied",)
    return ()


def _dp(question: Question) -> int:
    asked = question.dp_attention
    return question.tp_size if asked is True else max(1, int(asked))
