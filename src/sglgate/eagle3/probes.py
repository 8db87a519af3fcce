"""The requests that both arms must answer alike, and their answers from a live server."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sglgate.config.eagle3 import AnswersNeed
from sglgate.launch.client import Client, ServerError
from sglgate.load import PromptSet

_TOP: Final = 5
_DEADLINE_S: Final = 300.0
#: An answer that outlives any abort: if the abort works it never comes to its end.
_ABORT_TOKENS: Final = 512
_ABORT_AFTER_S: Final = 0.5
_SCHEMA: Final = '{"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}'


@dataclass(frozen=True)
class Probe:
    """One request. ``parent``: the greedy probe whose answer it was cut from; ``tokens`` as asked for."""

    name: str
    kind: str
    prompt: str
    tokens: int
    sampling: Mapping[str, Any] = field(default_factory=dict)
    parent: str = ""
    ignore_eos: bool = True


@dataclass(frozen=True)
class Answer:
    """What came back. ``top[i]``: the likeliest tokens at position i as (id, logprob); ``after``: see abort."""

    ids: tuple[int, ...] = ()
    text: str = ""
    finish: Mapping[str, Any] = field(default_factory=dict)
    logprobs: tuple[float, ...] = ()
    top: tuple[tuple[tuple[int, float], ...], ...] = ()
    error: str = ""
    after: str | None = None


def greedy_probes(need: AnswersNeed, prompts: Mapping[str, PromptSet], template: str) -> list[Probe]:
    """The whole greedy answers, from which the others are cut."""
    return [
        Probe(f"greedy {p.id}", "greedy", template.replace("{prompt}", p.text), need.tokens)
        for kind in need.kinds
        for p in prompts[kind].prompts[: need.prompts]
    ]


def derived_probes(greedy: Sequence[Probe], answers: Mapping[str, Answer], steps: int) -> list[Probe]:
    """Ends of every sort placed inside a run of accepted tokens: at each of ``steps`` + 1 neighbouring tokens.

    A run is at most steps + 1 tokens long, so wherever runs begin, one of the ends lies inside one.
    """
    parent = greedy[0]
    whole = answers[parent.name]
    places = range(4, min(4 + steps + 1, len(whole.ids)))
    probes = []
    for n in places:
        probes.append(Probe(f"length {n}", "length", parent.prompt, n, {}, parent.name))
        here = {"stop_token_ids": [whole.ids[n]]}
        # SGLang lets ignore_eos switch stop tokens off too (0.5.23, srt/managers/schedule_batch.py).
        stop = Probe(f"stop token {n}", "eos", parent.prompt, parent.tokens, here, parent.name, ignore_eos=False)
        probes.append(stop)
    words = whole.text.split()
    for word in words[len(words) // 3 : len(words) // 3 + 2]:
        probes.append(
            Probe(f"stop string {word!r}", "stop", parent.prompt, parent.tokens, {"stop": [word]}, parent.name)
        )
    probes += [Probe(f"eos {p.name}", "eos", p.prompt, p.tokens, {}, p.name, ignore_eos=False) for p in greedy]
    probes.append(Probe("logprobs", "logprobs", parent.prompt, min(16, parent.tokens), {}, parent.name))
    probes.append(Probe("json", "json", parent.prompt, 64, {"json_schema": _SCHEMA}, ignore_eos=False))
    probes.append(Probe("abort", "abort", parent.prompt, _ABORT_TOKENS, {}, parent.name))
    return probes


def ask_all(client: Client, probes: Sequence[Probe]) -> dict[str, Answer]:
    """Every probe, one at a time: batch shape is not what is compared here."""
    return {p.name: _abort(client, p) if p.kind == "abort" else _ask(client, p) for p in probes}


def _ask(client: Client, probe: Probe, **extra: Any) -> Answer:
    # Logprobs of the greedy answers judge a difference; asking for them must not change what is asked elsewhere.
    if probe.kind in ("greedy", "logprobs"):
        extra |= {"return_logprob": True, "top_logprobs_num": _TOP}
    try:
        body = client.generate(
            probe.prompt,
            max_new_tokens=probe.tokens,
            deadline_s=_DEADLINE_S,
            ignore_eos=probe.ignore_eos,
            sampling_params=dict(probe.sampling),
            **extra,
        )
    except ServerError as error:
        return Answer(error=str(error))
    meta = body["meta_info"]
    return Answer(
        ids=tuple(body.get("output_ids") or ()),
        text=str(body.get("text", "")),
        finish=_finish(meta),
        logprobs=tuple(float(item[0]) for item in meta.get("output_token_logprobs") or ()),
        top=tuple(
            tuple((int(i), float(lp)) for lp, i, *_ in position or ())
            for position in meta.get("output_top_logprobs") or ()
        ),
    )


def _abort(client: Client, probe: Probe) -> Answer:
    """Abort it in flight, then ask a short greedy answer before and after: the aborted one must leave no trace."""
    short = Probe("short", "short", probe.prompt, 8)
    before = _ask(client, short)
    rid = f"sglgate-abort-{time.monotonic_ns()}"
    got: list[Answer] = []
    # A session of its own: the first is busy waiting for this very answer.
    with Client(int(client.base_url.rpartition(":")[2])) as other:
        thread = threading.Thread(target=lambda: got.append(_ask(other, probe, rid=rid)), daemon=True)
        thread.start()
        time.sleep(_ABORT_AFTER_S)
        client.abort(rid)
        thread.join(_DEADLINE_S)
    if not got:
        return Answer(error=f"the aborted request did not end within {_DEADLINE_S:g} s")
    after = _ask(client, short)
    same = (before.ids, before.error) == (after.ids, after.error)
    return Answer(got[0].ids, got[0].text, got[0].finish, error=got[0].error, after=None if same else str(after.ids))


def _finish(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Type of the end, and what matched; the message differs between releases and is no part of the answer."""
    finish = meta.get("finish_reason")
    return {k: v for k, v in finish.items() if k in ("type", "matched", "length")} if isinstance(finish, dict) else {}
