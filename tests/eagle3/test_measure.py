"""One block on stand-in servers: order, flush, figures of both arms, and a client that is the limit."""

from __future__ import annotations

import pytest

from sglgate.eagle3.arms import baseline_of, unequal_arms
from sglgate.eagle3.why import explain_cell
from sglgate.errors import UnfitError
from sglgate.load import ClientLimits, PromptSet
from sglgate.speed.cells import Cell
from sglgate.speed.measure import run_arm, run_block

# A busy machine may hold this process up at will: what is asked here is not the time.
ANY_CLIENT = ClientLimits(99.0, lag_p99_ms=1e6, send_delay_p99_ms=1e6, least_ticks=0, in_flight_share=0)
PROMPTS = {"chat": PromptSet.of_texts("chat", tuple(f"prompt {n}" for n in range(4)))}
CELL = Cell("chat", 1, 3, 24, "{prompt}", ANY_CLIENT)


def test_a_block_launches_both_arms_in_order_and_explains_itself(fake_pool, telemetry, spec_candidate):
    candidate = spec_candidate()
    run = run_block(fake_pool, telemetry, baseline_of(candidate), candidate, "BA", [CELL], PROMPTS)

    assert (run.baseline.candidate, run.candidate.candidate) == ("spec--plain", "spec")
    assert run.candidate.log.stat().st_mtime < run.baseline.log.stat().st_mtime
    assert unequal_arms(run.baseline.info, run.candidate.info) == {}
    block = run.blocks()["chat@1"]
    assert block.order == "BA"
    assert block.baseline > 0
    assert block.candidate > 0
    assert 0 <= block.candidate_facts["foreign_cpu_share"] <= 1.05
    why = explain_cell("chat@1", [run], target_ratio=1.05)
    # How long a step looks to a client that was held up is the machine's affair; whose it is, is ours.
    assert why.times.plain_ms == run.baseline.metrics("chat@1")[0].gap_ms.mean
    assert why.times.round_ms == run.candidate.metrics("chat@1")[0].gap_ms.mean
    assert why.accept_length > 1.5
    assert why.predicted_ratio == pytest.approx(why.accept_length / why.break_even_accept_length)
    assert why.measured_ratio == pytest.approx(block.candidate / block.baseline)


def test_arms_with_other_running_requests_are_found_on_the_live_servers(fake_pool, spec_candidate):
    candidate = spec_candidate()
    loose = {k: v for k, v in candidate.arguments.items() if k != "max-running-requests"}
    candidate = candidate.model_copy(update={"arguments": loose})
    plain = fake_pool.fresh(baseline_of(candidate)).info
    assert unequal_arms(plain, fake_pool.fresh(candidate).info) == {"max_running_requests": (None, 48)}


def test_a_client_that_is_the_limit_is_unfit(fake_pool, telemetry, spec_candidate):
    narrow = Cell("chat", 1, 3, 24, "{prompt}", ClientLimits(cpu_share=0.0))
    with pytest.raises(UnfitError, match="the client is the limit"):
        run_arm(fake_pool, telemetry, spec_candidate(), [narrow], PROMPTS)
