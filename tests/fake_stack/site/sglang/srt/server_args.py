"""The few arguments that the tests use, parsed as SGLang parses them."""

import argparse
import os

DEFAULT_FRACTION = float(os.environ.get("FAKE_DEFAULT_FRACTION", "0.9"))


class ServerArgs:
    """As far as ``check_arguments.py`` and the stand-in need it."""

    @staticmethod
    def add_cli_args(parser: argparse.ArgumentParser) -> None:
        """Offer them to ``parser``."""
        parser.add_argument("--model-path", required=True)
        parser.add_argument("--host", default="127.0.0.1")
        parser.add_argument("--port", type=int, default=30000)
        parser.add_argument("--device", default="cuda")
        parser.add_argument("--attention-backend", choices=["torch_native", "triton"])
        parser.add_argument("--dtype", default="auto")
        parser.add_argument("--kv-cache-dtype", default="auto")
        parser.add_argument("--tp-size", "--tensor-parallel-size", type=int, default=1)
        parser.add_argument("--mem-fraction-static", type=float, default=DEFAULT_FRACTION)
        parser.add_argument("--max-total-tokens", type=int)
        parser.add_argument("--page-size", type=int, default=1)
        parser.add_argument("--max-running-requests", type=int)
        parser.add_argument("--speculative-algorithm")
        parser.add_argument("--speculative-draft-model-path")
        parser.add_argument("--speculative-num-steps", type=int)
        parser.add_argument("--speculative-eagle-topk", type=int)
        parser.add_argument("--speculative-num-draft-tokens", type=int)
