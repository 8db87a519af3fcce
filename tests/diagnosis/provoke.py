"""Make a real SGLang fail in many ways on a machine without a GPU, and keep its logs as the corpus.

    python tests/diagnosis/provoke.py --python /path/to/stack/bin/python --models DIR [--only NAME ...]

DIR holds the two small models of fixtures/models. Each case starts one server (10 to 70 s), does what its
name says, waits for the end and writes ``corpus/real/<name>.log`` with personal paths replaced. The
expected answers stand in
``corpus/real/expected.toml``; they are written by hand, not by this script.
"""

from __future__ import annotations

# ruff: noqa: E501
import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
OUT = HERE / "corpus" / "real"
SMALL, TINY = "smollm2-135m-instruct", "tiny-llama-tp2"
ENVIRONMENT = {"SGLANG_USE_CPU_ENGINE": "1", "HF_HUB_OFFLINE": "1", "TORCH_COMPILE_DISABLE": "1"}
TWO_RANKS = {"SGLANG_CPU_OMP_THREADS_BIND": "0|1", "SGLANG_NCCL_SO_PATH": "/nonexistent/libnccl.so"}
LIMIT_S = 600


@dataclass
class Server:
    """One launched server and where it writes."""

    process: subprocess.Popen[bytes]
    log: Path
    port: int

    def text(self) -> str:
        """The log so far."""
        return self.log.read_text(errors="replace")

    def wait_for(self, words: str, limit_s: float = LIMIT_S) -> bool:
        """Until ``words`` stand in the log; False when the process ended or time is up."""
        until = time.monotonic() + limit_s
        while time.monotonic() < until:
            if words in self.text():
                return True
            if self.process.poll() is not None:
                return False
            time.sleep(0.5)
        return False

    def scheduler(self) -> int:
        """The pid of a scheduler: the child whose title says so, found by its parent."""
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                title = (entry / "cmdline").read_bytes()
                group = os.getpgid(int(entry.name))
            except OSError:
                continue
            if b"sglang::scheduler" in title and group == self.process.pid:
                return int(entry.name)
        raise RuntimeError("no scheduler is running")

    def get(self, path: str, timeout_s: float) -> None:
        """One request whose answer does not matter."""
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=timeout_s).read()


@dataclass
class Case:
    """One way to fail."""

    name: str
    arguments: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    model: str = SMALL
    edit: Callable[[Path], None] | None = None
    act: Callable[[Server], None] | None = None
    hold_port: bool = False
    prefix: list[str] = field(default_factory=list)
    prepare: Callable[[Path], dict[str, str]] | None = None
    limit_s: int = LIMIT_S


def _config(change: Callable[[dict[str, object]], None]) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        path = folder / "config.json"
        config = json.loads(path.read_text())
        change(config)
        path.unlink()
        path.write_text(json.dumps(config))

    return edit


def _set(**values: object) -> Callable[[Path], None]:
    return _config(lambda config: config.update(values))


def _corrupt_config(folder: Path) -> None:
    path = folder / "config.json"
    text = path.read_text()
    path.unlink()
    path.write_text(text[: len(text) // 2])


def _cut_weights(folder: Path) -> None:
    path = next(folder.glob("*.safetensors"))
    data = path.read_bytes()[:4096]
    path.unlink()
    path.write_bytes(data)


def _no_weights(folder: Path) -> None:
    for path in folder.glob("*.safetensors*"):
        path.unlink()


def _kill_scheduler(server: Server) -> None:
    if server.wait_for("fired up"):
        os.kill(server.scheduler(), signal.SIGKILL)


def _kill_while_loading(server: Server) -> None:
    if server.wait_for("Load weight begin"):
        os.kill(server.scheduler(), signal.SIGKILL)


def _stop_scheduler(server: Server) -> None:
    if server.wait_for("fired up"):
        pid = server.scheduler()
        os.kill(pid, signal.SIGSTOP)
        server.get("/health_generate", 60)
        time.sleep(2)
        os.kill(pid, signal.SIGKILL)
        os.killpg(server.process.pid, signal.SIGKILL)


def _terminate(server: Server) -> None:
    if server.wait_for("fired up"):
        server.get("/health_generate", 30)
        time.sleep(1)
        server.process.send_signal(signal.SIGTERM)


def _long_prompt(server: Server) -> None:
    """One forward pass that takes longer than the watchdog waits."""
    if server.wait_for("fired up"):
        body = json.dumps({"text": "one two three four " * 1900, "sampling_params": {"max_new_tokens": 4}}).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{server.port}/generate", body, {"Content-Type": "application/json"}
        )
        with contextlib.suppress(OSError):
            urllib.request.urlopen(request, timeout=90).read()


def _shadow(package: str) -> Callable[[Path], dict[str, str]]:
    def prepare(folder: Path) -> dict[str, str]:
        (folder / package).mkdir()
        (folder / package / "__init__.py").write_text("")
        return {"PYTHONPATH": str(folder)}

    return prepare


def _stock_kernel_package(folder: Path) -> dict[str, str]:
    """The CPU engine with the wheel's own ``sgl_kernel``: the stack's stand-in is armed before this is read."""
    (folder / "sitecustomize.py").write_text('import os\n\nos.environ["SGLANG_USE_CPU_ENGINE"] = "1"\n')
    return {"PYTHONPATH": str(folder)}


def _draft(folder: Path, models: Path, **changes: object) -> Path:
    target = folder / "draft"
    shutil.copytree(models / TINY, target)
    _config(lambda c: c.update({"architectures": ["LlamaForCausalLMEagle3"], "num_hidden_layers": 1, **changes}))(
        target
    )
    return target


CASES = [
    Case("healthy_plain", act=_terminate),
    Case("healthy_tp2", ["--tp", "2"], TWO_RANKS, TINY, act=_terminate),
    Case("wrong_flag", ["--no-such-flag", "1"]),
    Case("wrong_choice", ["--attention-backend", "nonsense"]),
    Case("context_too_long", ["--context-length", "999999"]),
    Case("absent_model", model="/nonexistent/model"),
    Case("absent_hub_model", model="no-such-user/no-such-model"),
    Case("no_weights", edit=_no_weights),
    Case("cut_weights", edit=_cut_weights),
    Case("corrupt_config", edit=_corrupt_config),
    Case("port_taken", hold_port=True),
    Case("distributed_port_taken", ["--tp", "2", "--dp", "2", "--enable-dp-attention", "--dist-init-addr", "127.0.0.1:{port}"],
         {**TWO_RANKS, "SGLANG_WAIT_PORT_TIMEOUT": "3"}, TINY, hold_port=True),
    Case("tp_not_divisible_by_nodes", ["--tp", "3", "--nnodes", "2", "--node-rank", "0", "--dist-init-addr", "127.0.0.1:29555"], TWO_RANKS, TINY),
    Case("tiny_memory_fraction", ["--mem-fraction-static", "0.0005"]),
    # 9 heads over 2 ranks fail on a GPU; on the CPU 0.5.23 was seen to load the weights all the same.
    Case("unknown_architecture", edit=_set(architectures=["NoSuchForCausalLM"])),
    Case("unknown_model_type", edit=_set(model_type="no_such_type")),
    Case("killed_serving", act=_kill_scheduler),
    Case("killed_loading", act=_kill_while_loading),
    Case("stopped_scheduler", environment={"SGLANG_HEALTH_CHECK_TIMEOUT": "8"}, act=_stop_scheduler),
    Case("slow_forward", ["--watchdog-timeout", "1"], act=_long_prompt),
    Case("without_cpu_engine", environment={"SGLANG_USE_CPU_ENGINE": "0"}),
    Case("no_driver", environment={"SGLANG_USE_CPU_ENGINE": "0"}, prepare=_stock_kernel_package),
    Case("device_cuda", ["--device", "cuda"]),
    Case("unknown_quantization", edit=_set(quantization_config={"quant_method": "no_such_method"})),
    Case("quantization_argument", ["--quantization", "gptq"], edit=_set(quantization_config={"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True})),
    Case("quantization_without_config", ["--quantization", "gptq"]),
    Case("shadowed_package", prepare=_shadow("partial_json_parser")),
    Case("missing_speculative_draft", ["--speculative-algorithm", "EAGLE3"]),
    Case("draft_other_hidden_size", ["--speculative-algorithm", "EAGLE3", "--speculative-num-steps", "3", "--speculative-eagle-topk", "1",
                                     "--speculative-num-draft-tokens", "4",
                                     "--speculative-draft-model-path", "{draft}"]),
    Case("proxy_in_between", environment={"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9", "no_proxy": "", "NO_PROXY": ""}),
    Case("host_memory_cap", ["--load-format", "dummy"], edit=_set(num_hidden_layers=400, hidden_size=8192, intermediate_size=65536, num_attention_heads=64, num_key_value_heads=64, vocab_size=49152), prefix=["prlimit", "--as=60000000000"]),
    Case("small_dev_shm", ["--tp", "2"], TWO_RANKS, TINY, prefix=["unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=4k tmpfs /dev/shm && exec "$@"', "sh"]),
]  # fmt: skip


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def run(case: Case, python: Path, models: Path) -> str:
    """One case; returns the log with personal paths replaced."""
    port = _free_port()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = case.model if "/" in case.model else str(models / case.model)
        if case.edit:
            shutil.copytree(model, folder / "model", symlinks=False)
            case.edit(folder / "model")
            model = str(folder / "model")
        extra = case.prepare(folder) if case.prepare else {}
        arguments = [a.replace("{draft}", str(_draft(folder, models))) if "{draft}" in a else a for a in case.arguments]
        arguments = [a.replace("{port}", str(port)) for a in arguments]
        command = [
            *case.prefix, str(python), "-m", "sglang.launch_server", "--model-path", model, "--host", "127.0.0.1", "--port", str(port),
            *([] if "--device" in arguments else ["--device", "cpu"]),
            *([] if "--attention-backend" in arguments else ["--attention-backend", "torch_native"]),
            *([] if "--mem-fraction-static" in arguments else ["--mem-fraction-static", "0.3",
            "--max-total-tokens", "16384"]), *arguments,
        ]  # fmt: skip
        holder = socket.socket()
        if case.hold_port:
            holder.bind(("127.0.0.1", port))
            holder.listen()
        log = folder / "server.log"
        with log.open("wb") as stream:
            process = subprocess.Popen(
                command, stdout=stream, stderr=subprocess.STDOUT, start_new_session=True, cwd=folder,
                env={**os.environ, **ENVIRONMENT, **case.environment, **extra},
            )  # fmt: skip
        server = Server(process, log, port)
        try:
            if case.act:
                case.act(server)
            process.wait(timeout=case.limit_s)
        except subprocess.TimeoutExpired:
            pass
        finally:
            _kill_group(process)
            holder.close()
        time.sleep(1)
        return _anonymous(server.text(), python, models, folder)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _anonymous(text: str, python: Path, models: Path, folder: Path) -> str:
    stack = python.parent.parent
    for old, new in (
        (str(folder), "/srv/run"),
        (str(models), "/srv/models"),
        (str(stack), "/opt/stack"),
        (str(stack.resolve()), "/opt/stack"),
        (str(Path.home()), "/home/user"),
        (socket.gethostname(), "node"),
    ):
        text = text.replace(old, new)
    text = re.sub(r"/(?:usr|root)/[\w./-]*/python3\.(\d+)", r"/usr/lib/python3.\1", text)
    return re.sub(r"/tmp/[\w./-]+", "/tmp/file", text)


def main() -> int:
    """Run the cases that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", type=Path, required=True)
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--only", nargs="*", default=[])
    arguments = parser.parse_args()
    unknown = set(arguments.only) - {case.name for case in CASES}
    if unknown:
        parser.error(f"no such case: {', '.join(sorted(unknown))}")
    OUT.mkdir(parents=True, exist_ok=True)
    for case in CASES:
        if arguments.only and case.name not in arguments.only:
            continue
        begin = time.monotonic()
        (OUT / f"{case.name}.log").write_text(run(case, arguments.python, arguments.models))
        print(f"{case.name}: {time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
