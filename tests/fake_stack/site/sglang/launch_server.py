"""A server that looks like SGLang from outside. ``FAKE`` lists its faults, separated by commas:

rank-differs, one-rank-silent, no-kv-line, strange-kv-line, wrong-size, figures-differ, health-only, dies-in-weights,
hangs-in-weights, oom, dies-under-load, retracts, forgets-when-full, orphan, ignores-sigterm, leaves-shm, slow-start;
with FAKE_STEP_MS also those of generating.py. What a release may change: FAKE_ANSWER, FAKE_DEFAULT_FRACTION and
FAKE_SLOWER. FAKE_SAYS, a JSON string, goes into the log.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing import resource_tracker, shared_memory

from sglang import generating
from sglang.srt.server_args import DEFAULT_FRACTION, ServerArgs

FAULTS = set(filter(None, os.environ.get("FAKE", "").split(",")))
GIB = 2**30


def log(text, rank=None):
    prefix = time.strftime("[%Y-%m-%d %H:%M:%S") + (f" TP{rank}" if rank is not None else "") + "] "
    print(prefix + text, flush=True)


class State:
    """What the pretended scheduler knows."""

    def __init__(self, args):
        self.args, self.used, self.lock = args, 0, threading.Lock()


def start(args):
    log("server_args=" + repr(dict(vars(args)) | {"pp_size": 1, "dp_size": 1}))
    if "FAKE_SAYS" in os.environ:
        log(json.loads(os.environ["FAKE_SAYS"]))
    ranks = range(args.tp_size)
    name = (lambda r: r) if args.tp_size > 1 else (lambda r: None)
    for r in ranks:
        log("Load weight begin. avail mem=20.00 GB", name(r))
    if "dies-in-weights" in FAULTS:
        log(
            "Scheduler hit an exception: Traceback (most recent call last):\n"
            '  File "model_runner.py", line 1, in load_model\n'
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of "
            "20.50 GiB of which 1.00 GiB is free.",
            name(args.tp_size - 1),
        )
        log("Received sigquit from a child process. It usually means the child failed.")
        time.sleep(float(os.environ.get("FAKE_LINGER_S", "60")))
        sys.exit(1)
    if "hangs-in-weights" in FAULTS:
        time.sleep(600)
    for r in ranks:
        log("Load weight end. elapsed=0.10 s, type=LlamaForCausalLM, avail mem=19.80 GB, mem usage=0.20 GB.", name(r))
    if "oom" in FAULTS:
        raise RuntimeError(
            "Not enough memory. Please try to increase --mem-fraction-static. "
            f"Current value: mem_fraction_static={args.mem_fraction_static}"
        )
    row = int(os.environ.get("FAKE_ROW_BYTES", "23040"))
    for r in ranks:
        tokens = args.max_total_tokens - (16 if "rank-differs" in FAULTS and r else 0)
        half = (tokens + args.page_size) * row / 2 / GIB * (2 if "wrong-size" in FAULTS else 1)
        if "strange-kv-line" in FAULTS:
            log(f"KV Cache is allocated: {tokens} slots", name(r))
        elif "no-kv-line" not in FAULTS and not ("one-rank-silent" in FAULTS and r):
            log(
                f"KV Cache is allocated. dtype: torch.bfloat16, #tokens: {tokens}, K size: {half:.2f} GB, "
                f"V size: {half:.2f} GB",
                name(r),
            )
        log("Memory pool end. avail mem=19.00 GB", name(r))
    stated = args.max_total_tokens + ("figures-differ" in FAULTS)
    log(
        f"max_total_num_tokens={stated}, chunked_prefill_size=4096, max_prefill_tokens=16384, "
        "max_running_requests=2048, context_len=8192, available_cpu_mem=19.00 GB",
        name(0),
    )


class Handler(BaseHTTPRequestHandler):
    """The endpoints that the suite asks."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, body, code=200):
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        state = self.server.state
        a = state.args
        if self.path == "/server_info":
            self.answer(
                vars(a)
                | {
                    "pp_size": 1,
                    "dp_size": 1,
                    "enable_dp_attention": False,
                    "version": os.environ.get("FAKE_VERSION", "0.5.23"),
                    "max_total_tokens": state.asked_tokens,
                    "max_total_num_tokens": a.max_total_tokens,
                    "internal_states": [{"memory_usage": {"token_capacity": a.max_total_tokens}}],
                    "api_key": "sk-very-secret-0123456789abcdef",
                }
            )
        elif self.path == "/v1/loads":
            self.answer({"loads": [{"num_used_tokens": min(state.used, a.max_total_tokens)}]})
        elif self.path == "/health":
            self.answer({})
        else:
            self.answer({"error": "not found"}, 404)

    def do_POST(self):
        state = self.server.state
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"null")
        if self.path == "/flush_cache":
            return self.answer({})
        if self.path == "/abort_request":
            generating.abort(body)
            return self.answer({})
        if "health-only" in FAULTS:
            time.sleep(600)
        if "FAKE_STEP_MS" in os.environ:
            return generating.answer(self, state.args, FAULTS, body)
        prompt = len(body.get("input_ids") or body["text"].split())
        tokens = body["sampling_params"]["max_new_tokens"]
        with state.lock:
            state.used += prompt + tokens
        full = state.used > 0.9 * state.args.max_total_tokens
        if full and "dies-under-load" in FAULTS:
            log(
                "Scheduler hit an exception: Traceback (most recent call last):\nRuntimeError: CUDA error: an illegal "
                "memory access was encountered"
            )
            os._exit(1)
        if full and "retracts" in FAULTS:
            log("KV cache pool is full. Retract requests. #retracted_reqs: 1, #new_token_ratio: 0.70 -> 1.00")
        text = (
            "nonsense"
            if full and "forgets-when-full" in FAULTS and "text" in body
            else os.environ.get("FAKE_ANSWER", " Paris.")
        )
        time.sleep(2.5 if prompt > 50 else 0.01)
        with state.lock:
            state.used -= prompt + tokens
        return self.answer({"text": text, "output_ids": [1] * tokens, "meta_info": {"completion_tokens": tokens}})


def main():
    parser = argparse.ArgumentParser()
    ServerArgs.add_cli_args(parser)
    args = parser.parse_args()
    asked = args.max_total_tokens
    if asked is None:
        args.max_total_tokens = round(4096 / 0.9 * DEFAULT_FRACTION)
    if args.speculative_algorithm and args.max_running_requests is None:
        args.max_running_requests = 48
    if "ignores-sigterm" in FAULTS:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "orphan" in FAULTS:
        # In a session of its own and with its parent gone, as a scheduler that escaped.
        subprocess.Popen(["sh", "-c", "setsid sleep 600 & exit 0"])
    if "leaves-shm" in FAULTS:
        segment = shared_memory.SharedMemory(create=True, size=4096, name=os.environ["FAKE_SHM"])
        resource_tracker.unregister(segment._name, "shared_memory")
    time.sleep(2 if "slow-start" in FAULTS else 0)
    start(args)
    server = ThreadingHTTPServer((args.host, args.port), Handler)
    server.daemon_threads = True
    server.state = State(args)
    server.state.asked_tokens = asked
    threading.Thread(target=server.serve_forever, daemon=True).start()
    log("The server is fired up and ready to roll!")
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0)) if "ignores-sigterm" not in FAULTS else None
    while True:
        time.sleep(60)


if __name__ == "__main__":
    main()
