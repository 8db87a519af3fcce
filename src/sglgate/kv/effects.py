"""What tensor parallelism, the KV dtype and EAGLE-3 do to a pool, with everything else as asked."""

from __future__ import annotations

from dataclasses import dataclass

from sglgate.errors import MisuseError
from sglgate.kv.predict import predict
from sglgate.kv.question import Prediction, Question, Speculative

_EAGLE3 = Speculative(algorithm="EAGLE3", num_steps=3, eagle_topk=1, num_draft_tokens=4, draft_layers=1)


@dataclass(frozen=True)
class Effect:
    """One variation of a question."""

    what: str
    prediction: Prediction
    assumed: str = ""


def effects(question: Question) -> tuple[Effect, ...]:
    """Predictions for other TP sizes, KV dtypes, and without or with an EAGLE-3 draft of one layer.

    Under another TP the weights are taken to split evenly. A draft's weights are not taken off: their size
    is not known.
    """
    found = []
    for tp in (1, 2, 4, 8):
        if tp != question.tp_size:
            found.append(_vary(f"TP {tp}", question, _with_tp(question, tp), "weights split evenly over the ranks"))
    for dtype in ("bfloat16", "fp8_e4m3"):
        found.append(_vary(f"KV {dtype}", question, {"kv_cache_dtype": dtype}))
    if question.draft is None:
        found.append(_vary("EAGLE-3", question, {"speculative": _EAGLE3}, "one draft layer, its weights not counted"))
    else:
        found.append(_vary("no speculation", question, {"speculative": None}, "the draft's weights stay counted"))
    return tuple(effect for effect in found if effect is not None)


def _vary(what: str, question: Question, update: dict[str, object], assumed: str = "") -> Effect | None:
    try:
        return Effect(what, predict(question.model_copy(update=update)), assumed)
    except MisuseError:
        return None  # SGLang would refuse this split of the model as well


def _with_tp(question: Question, tp: int) -> dict[str, object]:
    update: dict[str, object] = {"tp_size": tp, "dp_attention": 1}
    scale = question.tp_size / tp
    if question.weights_gib is not None:
        update["weights_gib"] = question.weights_gib * scale
    if question.pre_gib is not None and question.avail_gib is not None:
        update["avail_gib"] = question.pre_gib - (question.pre_gib - question.avail_gib) * scale
    return update
