"""Load on a live SGLang server, measured: what it was asked, what came back when, and whether we were the
limit."""

from sglgate.load.measure import acceptance
from sglgate.load.plan import ClosedLoop, LoadPlan, OpenLoop
from sglgate.load.prompts import Prompt, PromptSet, load_prompts, prompt_kinds
from sglgate.load.results import Acceptance, LoadResult, Metrics, RequestResult
from sglgate.load.run import run_load
from sglgate.load.stats import Summary
from sglgate.load.watch import ClientCheck, ClientLimits

__all__ = [
    "Acceptance",
    "ClientCheck",
    "ClientLimits",
    "ClosedLoop",
    "LoadPlan",
    "LoadResult",
    "Metrics",
    "OpenLoop",
    "Prompt",
    "PromptSet",
    "RequestResult",
    "Summary",
    "acceptance",
    "load_prompts",
    "prompt_kinds",
    "run_load",
]
