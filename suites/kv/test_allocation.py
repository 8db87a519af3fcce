"""Was the KV cache allocated, on every rank, alike, and do all who state its size agree?"""

from __future__ import annotations

from fixtures.gate import Gate
from sglgate.config import Candidate
from sglgate.kv.account import account
from sglgate.kv.live import capacity_figures, expected_ranks, target_pools
from sglgate.kv.observed import observe
from sglgate.launch import Server


def test_allocated_on_every_rank(server: Server, gate: Gate) -> None:
    """Each tensor- and pipeline-parallel rank printed its pool."""
    gate.show_log(server.log)
    pools = target_pools(server.record)
    card_mib = server.profile.machine.gpu_memory_mib
    total_gib = card_mib / 1024 if card_mib is not None else None
    detail = {
        "tokens": {pool.rank or "TP0": pool.tokens for pool in pools},
        "memory_gib": [account(rank, total_gib).to_json() for rank in observe(server.record).ranks],
    }
    gate.judge("ranks with a KV pool", len(pools), expected_ranks(server.info), "equal", "ranks", detail=detail)


def test_equal_tokens(server: Server, gate: Gate) -> None:
    """No rank holds more tokens than another: the smallest would decide, the rest would be wasted."""
    gate.show_log(server.log)
    tokens = [pool.tokens for pool in target_pools(server.record)]
    spread = max(tokens) - min(tokens)
    gate.judge("tokens, largest less smallest rank", spread, 0, "equal", "tokens", n=len(tokens), reason=str(tokens))


def test_figures_agree(server: Server, gate: Gate) -> None:
    """The server's own figures and the log's are one number."""
    gate.show_log(server.log)
    figures = capacity_figures(server.record, server.info)
    spread = max(figures.values()) - min(figures.values())
    gate.judge(
        "capacity, largest less smallest figure", spread, 0, "equal", "tokens", reason=str(figures), detail=figures
    )


def test_holds_what_is_needed(candidate: Candidate, server: Server, gate: Gate) -> None:
    """The pool is as large as the candidate says that the work needs."""
    gate.show_log(server.log)
    need = candidate.expect.kv
    wanted = need.min_tokens or 1
    if need.requests and need.request_tokens:
        wanted = max(wanted, need.requests * need.request_tokens)
    gate.judge("KV pool", min(pool.tokens for pool in target_pools(server.record)), wanted, "at_least", "tokens")
