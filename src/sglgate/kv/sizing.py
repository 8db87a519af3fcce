"""From the memory that is left to the pools: the arithmetic of one release, exactly as it rounds.

Sources: 0.5.5 ``model_executor/model_runner.py`` (``profile_max_num_token``, ``init_memory_pool``,
``set_num_token_hybrid``); 0.5.9 ``model_executor/model_runner_kv_cache_mixin.py`` (the same names,
``set_num_tokens_hybrid_swa``); 0.5.12 and 0.5.15 ``model_executor/pool_configurator.py``
(``DefaultPoolConfigurator``, ``HybridSWAPoolConfigurator``); 0.5.18, 0.5.20 and 0.5.23
``mem_cache/kv_cache_configurator.py`` (``config_from_budget``, ``_apply_token_constraints``,
``resolve_max_num_reqs``).
"""

from __future__ import annotations

from dataclasses import dataclass

from sglgate.kv.cell import Cell, Split
from sglgate.kv.geometry import Family, Geometry
from sglgate.kv.question import Question
from sglgate.kv.statepool import StatePool, take_state
from sglgate.kv.versions import Rules, SwaRule

GIB = 1 << 30
DEFAULT_SPECULATIVE_REQUESTS = 48
"""``max_running_requests`` that SGLang sets when it speculates and none was asked for (0.5.5 to 0.5.23)."""


@dataclass(frozen=True)
class Pool:
    """The pools of one rank. ``tokens`` <= 0 means that SGLang refuses to start."""

    tokens: int
    swa_tokens: int | None = None
    state: StatePool | None = None


@dataclass(frozen=True)
class Sizing:
    """All that the sizing depends on besides the memory itself."""

    question: Question
    rules: Rules
    geometry: Geometry
    split: Split
    cell: Cell

    def pool(self, rest_gib: float) -> Pool:
        """Pools for ``rest_gib`` of static memory left after weights (may be negative).

        More memory never means fewer tokens, but for one case: where it reaches one more request state.
        """
        state = None
        if self.geometry.state is not None:
            state = take_state(self.geometry, rest_gib, self.question, self.rules, self.split)
            if state.slots <= 0:
                return Pool(0, None, state)
            rest_gib = state.rest_gib
        budget_bytes = int(rest_gib * GIB)
        if budget_bytes <= 0:
            return Pool(0, None, state)
        if self.geometry.family is Family.SWA:
            full, swa = self._swa(budget_bytes)
            return Pool(full, swa, state)
        tokens = self._capped(budget_bytes // int(self.cell.sizing) + self._added_by_speculation())
        return Pool(tokens, None, state)

    def pool_gib(self, pool: Pool) -> float:
        """What the target's KV tensors occupy: every pool has one page of rows more than tokens."""
        page = self.question.page_size
        held = (pool.tokens + page) * self.cell.row if self.cell.row else 0
        if pool.swa_tokens is not None:
            held += (pool.swa_tokens + page) * self.cell.swa_row
        return held / GIB

    def request_slots(self, pool: Pool, context_length: int) -> int:
        """Requests that may run at once (``max_running_requests`` of the summary line).

        Source: 0.5.9 ``init_memory_pool`` and ``initialize``; 0.5.10 on ``resolve_max_num_reqs``.
        """
        asked = self.question.max_running_requests
        if asked is None and self.question.draft is not None:
            asked = DEFAULT_SPECULATIVE_REQUESTS
        if asked is not None:
            slots = max(1, asked // self.split.dp)
        else:
            slots = max(min(int(pool.tokens / context_length * 512), 4096), 2048)
        slots = min(slots, pool.tokens // 2) if asked is None or self.rules.half_tokens_cap_requests else slots
        if pool.state is not None:
            slots = min(slots, pool.state.slots // pool.state.slots_per_request)
        return slots

    def _added_by_speculation(self) -> int:
        # Up to 0.5.6 verify and draft tokens get room on top of what was profiled: the pool then exceeds
        # its budget.
        draft = self.question.draft
        if draft is None or not self.rules.spec_tokens_added or not draft.has_draft_pool:
            return 0
        requests = self.question.max_running_requests or DEFAULT_SPECULATIVE_REQUESTS
        return requests * (draft.num_steps * draft.eagle_topk + draft.num_draft_tokens) + 100

    def _capped(self, tokens: int) -> int:
        limit = self.question.max_total_tokens
        return self._aligned(tokens if limit is None else min(tokens, limit))

    def _aligned(self, tokens: int) -> int:
        return tokens // self.question.page_size * self.question.page_size

    def _swa(self, budget_bytes: int) -> tuple[int, int]:
        ratio, cell = self.question.swa_full_tokens_ratio, self.cell
        if self.rules.swa_rule is SwaRule.BY_BUDGET:
            full = self._capped(int(budget_bytes // cell.sizing))
            return full, self._aligned(int(full * ratio)) if cell.full_layers else full
        if self.rules.swa_rule is SwaRule.BY_LAYER_BYTES:
            uniform = cell.row + cell.swa_row
            alike = self._capped(budget_bytes // uniform)
            full = int(alike * uniform / (cell.row + ratio * cell.swa_row))
        else:
            # All layers are taken to cost what a full layer costs.
            per_layer = cell.row // cell.full_layers
            layers = cell.full_layers + cell.swa_layers
            alike = self._capped(budget_bytes // (per_layer * layers) + self._added_by_speculation())
            full = int(alike * layers / (ratio * cell.swa_layers + cell.full_layers))
        # Here the cap was applied before the split, so that the full pool can exceed --max-total-tokens.
        return self._aligned(full), self._aligned(int(full * ratio))
