"""A pretended model that generates token by token, plain or speculating, at a pace that a test sets.

The n-th token of an answer follows from the prompt and n alone, so both arms agree. ``FAKE_STEP_MS`` is one decode
step, of which ``FAKE_SLOWER`` makes a multiple; a speculative round takes ``FAKE_ROUND_MS`` (default: the same).
Faults, for the speculating server only:

random-draft, wrong-accept, tie, slow-step, runs-past-stop, runs-past-length, ignores-abort, wrong-logprobs,
breaks-json, and for both arms: noisy-launch
"""

import json
import os
import random
import threading
import time
import zlib

EOS = 2
_ABORTED = set()
_NOISE = random.Random(os.getpid()).uniform(0.6, 1.6)
_LOCK = threading.Lock()


def _hash(*parts):
    return zlib.crc32(repr(parts).encode())


def _token(prompt, n):
    # Every answer ends by itself somewhere in its second dozen.
    return EOS if n == 12 + _hash(prompt) % 12 else 10 + _hash(prompt, n) % 50


def _text(ids):
    return "".join("" if i == EOS else f" w{i}" for i in ids)


class Run:
    """One request: its tokens, cut where the sampling parameters say, and the rounds in which they come."""

    def __init__(self, args, faults, body):
        self.args, self.body = args, body
        sampling = body["sampling_params"]
        self.steps = args.speculative_num_steps if args.speculative_algorithm else 0
        self.faults = faults if self.steps else faults & {"noisy-launch"}
        self.prompt = body.get("text") or tuple(body["input_ids"])
        self.asked = sampling["max_new_tokens"]
        self.json = sampling.get("json_schema") is not None
        self.ids, self.finish = self._answer(sampling)

    def _answer(self, sampling):
        if self.json:
            text = '{"ok": tr' if "breaks-json" in self.faults else '{"ok": true}'
            return list(text.encode()), {"type": "stop", "matched": EOS}
        ids, stops, texts = [], set(sampling.get("stop_token_ids") or ()), sampling.get("stop") or []
        texts = [texts] if isinstance(texts, str) else texts
        stops = set() if sampling.get("ignore_eos") else stops | {EOS}
        for n in range(self.asked):
            token = _token(self.prompt, n)
            if n == 9 and self.faults & {"wrong-accept", "tie"}:
                token += 100
            ids.append(token)
            hit = token if token in stops else next((t for t in texts if t in _text(ids)), None)
            if hit is not None:
                if "runs-past-stop" in self.faults:
                    ids.append(_token(self.prompt, n + 1))
                return ids, {"type": "stop", "matched": hit}
        if "runs-past-length" in self.faults and self.asked < 12:
            ids.append(_token(self.prompt, self.asked))
        return ids, {"type": "length", "length": len(ids)}

    def rounds(self):
        """Tokens a round."""
        done = 0
        while done < len(self.ids):
            accepted = 0
            while self.steps > accepted and _hash("draft", self.prompt, done, accepted) % 10 < 6:
                accepted += 1
            accepted = 0 if "random-draft" in self.faults or done == 0 else accepted
            size = min(accepted + 1, len(self.ids) - done)
            done += size
            yield size

    def pace_s(self):
        step = float(os.environ["FAKE_STEP_MS"])
        if self.steps:
            step = float(os.environ.get("FAKE_ROUND_MS", step)) + self.steps * float(os.environ.get("FAKE_DRAFT_MS", 0))
            step *= 1.1 if "slow-step" in self.faults else 1
        # Real steps are never alike to nine digits.
        jitter = 1 + random.uniform(-0.01, 0.01)
        step *= float(os.environ.get("FAKE_SLOWER", 1))
        return step * jitter * (_NOISE if "noisy-launch" in self.faults else 1) / 1000

    def text(self, ids):
        return bytes(ids).decode() if self.json else _text(ids)

    def logprobs(self, count):
        shift = 0.7 if "wrong-logprobs" in self.faults else 0
        chosen = [[-0.1 - shift, i, ""] for i in self.ids[:count]]
        # The other token of a tie: almost as likely, for the target too.
        gap = 0.05 if os.environ.get("FAKE_NEAR_TIES") else 3.0
        top = [[[-0.1, i, ""], [-0.1 - gap, i + 100, ""]] for i in self.ids[:count]]
        return {"output_token_logprobs": chosen, "output_top_logprobs": top}


def events(args, faults, body):
    """SGLang's events of one request, cumulative, each at its time."""
    run, done, histogram = Run(args, faults, body), 0, {}
    rid = body.get("rid", "")
    for number, size in enumerate(run.rounds()):
        time.sleep(run.pace_s())
        done += size
        if number:
            histogram[size - 1] = histogram.get(size - 1, 0) + 1
        with _LOCK:
            aborted = rid and rid in _ABORTED and "ignores-abort" not in faults
        last = done == len(run.ids)
        finish = {"type": "abort", "message": "Abort"} if aborted else run.finish if last else None
        meta = {"id": rid, "finish_reason": finish, "prompt_tokens": 5, "cached_tokens": 0, "completion_tokens": done}
        if run.steps and finish:
            # As SGLang's: it ends at the longest run that there was.
            counts = [histogram.get(k, 0) for k in range(max(histogram, default=0) + 1)]
            meta |= {"spec_verify_ct": max(1, sum(counts)), "spec_correct_drafts_histogram": counts}
        if body.get("return_logprob") and finish:
            meta |= run.logprobs(done)
        yield {"text": run.text(run.ids[:done]), "output_ids": run.ids[:done], "meta_info": meta}
        if finish:
            return


def abort(body):
    with _LOCK:
        _ABORTED.add(body["rid"])


def answer(handler, args, faults, body):
    """The whole HTTP answer, streamed if the request says so."""
    if not body.get("stream"):
        for event in events(args, faults, body):
            last = event
        return handler.answer(last)
    handler.send_response(200)
    handler.send_header("Content-Type", "text/event-stream")
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    for event in events(args, faults, body):
        _chunk(handler, json.dumps(event, separators=(",", ":")))
    _chunk(handler, "[DONE]")
    handler.wfile.write(b"0\r\n\r\n")
    return None


def _chunk(handler, payload):
    data = f"data: {payload}\n\n".encode()
    handler.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
    handler.wfile.flush()
