"""The memory that SGLang leaves to its pools, as an interval, and the fraction that a pool implies.

    rest = avail - pre * (1 - f)

``pre`` is the memory free before the weights (free, not total: what a leftover process holds is lost),
``avail`` the memory free after them, both the minimum over all ranks; ``f`` is ``--mem-fraction-static``.
The same in every release: 0.5.5 ``model_executor/model_runner.py`` ``profile_max_num_token``; 0.5.9
``model_executor/model_runner_kv_cache_mixin.py``; 0.5.12, 0.5.15 ``_profile_available_bytes``; 0.5.18,
0.5.20, 0.5.23 ``mem_cache/kv_cache_configurator.py``, which also subtracts a multimodal reserve
(``mm_runtime_reservation_gb``).

Why a pool falls a little short of the formula. The log's ``Load weight end ... avail mem`` is not the
reading that sizes the pool. Between the two, ``ModelRunner.load_model`` calls
``reserve_rope_cache_for_long_sequences`` (``utils/common.py``, 0.5.6 on): it grows every RoPE table to the
context plus a margin. That is the first work the process does on the GPU after loading: a second copy of
the table, whose first copy can only return to the driver if nothing else shares its segment, the cuBLAS
handle and workspace that ``einsum`` needs, and lazily loaded kernels. A release without that call (0.5.5
and older) falls short by rounding only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sglgate.kv.geometry import Geometry
from sglgate.kv.question import Question
from sglgate.kv.versions import Rules

GIB = 1 << 30
MIB = 1 << 20
MULTIMODAL_RESERVE_GIB = 100 / 1024
"""``SGLANG_VLM_CACHE_SIZE_MB``, 100 unless set (0.5.18 to 0.5.23)."""
_FIRST_WORK_MIB = 84
"""Bound on what the first GPU work after loading takes: a 32 MiB cuBLAS workspace (Hopper and later), the
handle and lazily loaded kernels (32), one 20 MiB segment of torch's allocator. Derived from the code, not
measured here; the public logs in ``tests/kv/public_cases.json`` show 35 MiB on one card with tables and
none on those without."""
_OLD_SHORTFALL_MIB = 48
RANK_SPREAD_GIB = 0.05
"""Seen between the ranks of one node in public logs: 0.14 GiB on 288 GB cards, none on 24 GB ones."""
_ROPE_MARGIN = 256
_ROPE_ALIGN = 128
_ROPE_SAFETY = 2
CPU_DRIFT_GIB = 0.5
"""On a CPU, free memory is the machine's (``psutil``, or the container's limit): the server's other
processes and anything else that runs move it between a printed reading and the one that counts. The
launches in ``tests/kv/logs`` moved by some 0.2 GiB; a machine that also does other things moves by
more."""


@dataclass(frozen=True)
class Interval:
    """A closed interval with its nominal value."""

    low: float
    nominal: float
    high: float


def rest_interval(
    question: Question, fraction: float, pre: Interval, avail: Interval, unseen_gib: float, reserve_gib: float
) -> Interval:
    """GiB left to the pools for one fraction. ``unseen_gib`` bounds what is allocated after the last
    reading."""
    drift = drift_gib(question)
    spread = rank_spread_gib(question)
    return Interval(
        avail.low - pre.high * (1 - fraction) - reserve_gib - unseen_gib - drift - spread,
        avail.nominal - pre.nominal * (1 - fraction) - reserve_gib,
        avail.high - (pre.low - spread) * (1 - fraction) - reserve_gib + drift,
    )


def drift_gib(question: Question) -> float:
    """How far free memory may move between a printed reading and the one that counts: 0 but on a CPU."""
    return CPU_DRIFT_GIB if question.device == "cpu" and not question.exact_readings else 0.0


def rank_spread_gib(question: Question) -> float:
    """How far another rank's free memory may lie below the given one's: SGLang takes the minimum over all
    ranks.

    Asked for with one rank's figures, the others are taken to lie within :data:`RANK_SPREAD_GIB`.
    """
    if question.rank_spread_gib is not None:
        return question.rank_spread_gib
    alone = question.tp_size * question.pp_size == 1 or question.exact_readings
    return 0.0 if alone else RANK_SPREAD_GIB


def minimum_fraction(pre_gib: float, avail_gib: float, need_gib: float = 0.0) -> float:
    """The fraction that leaves ``need_gib`` for the pools; the server starts only above it.

    With no need it is SGLang's own "minimum viable = 1 - available/pre" (0.5.14 on,
    ``_profile_available_bytes``).
    """
    return 1 - (avail_gib - need_gib) / pre_gib


def round_up(fraction: float) -> float:
    """To the three decimals in which SGLang suggests a fraction, upwards."""
    return math.ceil(round(fraction * 1000, 6)) / 1000


def implied_fraction(pre: Interval, avail: Interval, held: Interval) -> Interval:
    """The fraction that a pool of ``held`` GiB (with all else the budget paid for) speaks of."""
    return Interval(
        1 - (avail.high - held.low) / pre.high if avail.high >= held.low else 1 - (avail.high - held.low) / pre.low,
        1 - (avail.nominal - held.nominal) / pre.nominal,
        1 - (avail.low - held.high) / pre.low if avail.low < held.high else 1 - (avail.low - held.high) / pre.high,
    )


def unseen_gib(question: Question, rules: Rules, geometry: Geometry) -> float:
    """Bound on what is allocated between the last logged reading and the one that sizes the pool. 0 on a
    CPU (it drifts)."""
    if question.device == "cpu" or question.exact_readings:
        return 0.0
    grown = rope_growth_bytes(question, rules, geometry)
    if grown == 0:
        return _OLD_SHORTFALL_MIB * MIB / GIB
    return (grown + _FIRST_WORK_MIB * MIB) / GIB


def rope_growth_bytes(question: Question, rules: Rules, geometry: Geometry) -> int:
    """Size of the grown RoPE table (float32 rows), 0 when the release does not grow it or it is long enough.

    Source: 0.5.6, 0.5.9, 0.5.23 ``reserve_rope_cache_for_long_sequences`` and
    ``_ensure_cos_sin_cache_length``.
    """
    if not rules.rope_reserve or not geometry.rope_rotary_dim:
        return 0
    rows = question.context_length or geometry.context_length or geometry.rope_rows
    if question.draft is not None:
        rows += question.draft.num_steps * question.draft.num_draft_tokens * _ROPE_SAFETY
    rows = math.ceil((rows + _ROPE_MARGIN) / _ROPE_ALIGN) * _ROPE_ALIGN
    if geometry.rope_rows and rows - 1 < geometry.rope_rows:
        return 0
    return math.ceil(rows * geometry.rope_rotary_dim * 4 / (2 * MIB)) * 2 * MIB


def multimodal_reserve_gib(rules: Rules, geometry: Geometry) -> float:
    """Set aside before sizing for multimodal embeddings; the GPU feature transports add more and are
    opt-in."""
    return MULTIMODAL_RESERVE_GIB if rules.multimodal_reserve and geometry.multimodal else 0.0
