"""``sglgate kv``: the KV pool before a launch (``predict``) or from a log (``explain``)."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from sglgate.errors import ExitCode, MisuseError

_PREDICT_EXAMPLES = """\
examples:
  sglgate kv predict --config Kimi-K2.5/config.json --tp 8 --pre-gib 94 --avail-gib 21.71 --fraction 0.88
  sglgate kv predict --config config.json --tp 8 --gpu-total-mib 97887 --weights-gib 72 --sweep --svg
  window.svg sglgate kv predict --json-in question.json --json
"""
_EXPLAIN_EXAMPLES = """\
examples:
  sglgate kv explain server.log --config Kimi-K2.5/config.json
  sglgate kv explain server.log --believed-fraction 0.55 --config config.json --gpu-total-mib 97887
  sglgate kv explain after.log --against before.log --json
"""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``kv`` with its two actions."""
    parser = subparsers.add_parser(
        "kv",
        help="predict a KV pool before a launch, or explain one from a log",
        description=__doc__,
        epilog=_PREDICT_EXAMPLES + _EXPLAIN_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    _register_predict(actions)
    _register_explain(actions)


def _register_predict(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = actions.add_parser(
        "predict",
        help="tokens per rank, requests, and the fractions that work",
        epilog=_PREDICT_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json-in", type=Path, metavar="FILE", help="the question as JSON; options override it")
    parser.add_argument("--config", help="the model's config.json, or its folder")
    parser.add_argument("--sglang-version", help="rules of this release (default: all that were read)")
    parser.add_argument("--tp", type=int, dest="tp_size")
    parser.add_argument("--pp", type=int, dest="pp_size")
    parser.add_argument("--dp-attention", type=int, metavar="DP", help="--dp of a server with DP attention")
    parser.add_argument("--dtype")
    parser.add_argument("--kv-cache-dtype")
    parser.add_argument("--fraction", type=float, dest="mem_fraction_static", help="--mem-fraction-static")
    parser.add_argument("--pre-gib", type=float, help='"Load weight begin. avail mem"')
    parser.add_argument("--avail-gib", type=float, help='"Load weight end ... avail mem"')
    parser.add_argument("--gpu-total-mib", type=float, help="memory.total of nvidia-smi, for the default fraction")
    parser.add_argument("--weights-gib", type=float, help="weights on a rank, where avail-gib is not known")
    parser.add_argument("--page-size", type=int)
    parser.add_argument("--max-total-tokens", type=int)
    parser.add_argument("--context-length", type=int)
    parser.add_argument("--max-running-requests", type=int)
    parser.add_argument("--speculative-algorithm")
    parser.add_argument("--draft-config", help="the draft's config.json, or its folder")
    parser.add_argument("--request-tokens", type=int, help="length of the request that must fit (4096)")
    parser.add_argument("--headroom-gib", type=float, help="measured need of graphs and activations")
    parser.add_argument("--sweep", action="store_true", help="every fraction of the range, with a plot")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="write the plot there")
    parser.add_argument("--details", action="store_true", help="with --json: more than the contract's fields")
    parser.add_argument("--json", action="store_true")
    parser.set_defaults(run=_predict)


def _register_explain(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = actions.add_parser(
        "explain",
        help="what happened to the pool of a start, and what contradicts it",
        epilog=_EXPLAIN_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("log", type=Path)
    parser.add_argument("--config", help="the model's config.json (default: the model folder the log names)")
    parser.add_argument("--draft-config")
    parser.add_argument("--sglang-version", help="where the log does not say it")
    parser.add_argument("--believed-fraction", type=float, help="what somebody believes was set")
    parser.add_argument("--gpu-total-mib", type=float, help="to account for what the card lost before the start")
    parser.add_argument("--request-tokens", type=int, default=4096)
    parser.add_argument("--against", type=Path, metavar="LOG", help="another start: what shrank since")
    parser.add_argument("--json", action="store_true")
    parser.set_defaults(run=_explain)


def _predict(args: argparse.Namespace) -> int:
    from sglgate.kv import render
    from sglgate.kv.effects import effects
    from sglgate.kv.predict import predict
    from sglgate.kv.question import Verdict
    from sglgate.kv.window import fraction_window

    question = _question(args)
    answer = predict(question)
    window = None
    known = answer.tokens is not None
    if known and answer.verdict is not Verdict.DECLINED:
        window = fraction_window(question, args.request_tokens, args.headroom_gib)
    if args.svg is not None:
        if window is None:
            raise MisuseError("nothing to plot without the free memory before and after the weights", key="--svg")
        render.write_svg(args.svg, window, question)
    if args.json:
        out = answer.contract()
        if args.details:
            out["details"] = answer.details
        if args.sweep and window is not None:
            out["window"] = window.to_json()
        print(json.dumps(out, indent=1))
    else:
        print(render.prediction(question, answer, window, effects(question) if known else (), args.sweep))
    green = answer.verdict is Verdict.FITS
    return ExitCode.GREEN if green else ExitCode.RED


def _question(args: argparse.Namespace) -> Any:
    from sglgate.kv.geometry import load_config
    from sglgate.kv.question import ask, read_question_file

    given: dict[str, Any] = {}
    if args.json_in is not None:
        given = read_question_file(args.json_in).model_dump(by_alias=True, exclude_unset=True)
    for name in (
        "sglang_version",
        "tp_size",
        "pp_size",
        "dp_attention",
        "dtype",
        "kv_cache_dtype",
        "mem_fraction_static",
        "pre_gib",
        "avail_gib",
        "gpu_total_mib",
        "weights_gib",
        "page_size",
        "max_total_tokens",
        "context_length",
        "max_running_requests",
        "request_tokens",
    ):
        value = getattr(args, name)
        if value is not None:
            given[name] = value
    if args.config is not None:
        given["model_config"] = dict(load_config(args.config))
    if args.speculative_algorithm is not None:
        given["speculative"] = {
            **(given.get("speculative") or {}),
            "algorithm": args.speculative_algorithm,
        }
    if args.draft_config is not None:
        draft = given.setdefault("speculative", {"algorithm": "EAGLE3"})
        draft["draft_model_config"] = dict(load_config(args.draft_config))
    if "model_config" not in given:
        raise MisuseError("no model", key="--config", expected="give a config.json, or a question with --json-in")
    return ask(given)


def _explain(args: argparse.Namespace) -> int:
    from sglgate.kv import render
    from sglgate.kv.checks import exact_readings
    from sglgate.kv.explain import explain
    from sglgate.kv.geometry import load_config
    from sglgate.kv.observed import find_config, observe, read_log, stated_minimum

    record = read_log(args.log)
    found = explain(
        record,
        find_config(observe(record), args.config),
        draft_config=None if args.draft_config is None else load_config(args.draft_config),
        version=args.sglang_version,
        believed_fraction=args.believed_fraction,
        gpu_total_mib=args.gpu_total_mib,
        request_tokens=args.request_tokens,
        against=None if args.against is None else read_log(args.against),
        readings=exact_readings(args.log),
        stated_minimum=stated_minimum(args.log),
    )
    if args.json:
        print(json.dumps(found.to_json(), indent=1))
    else:
        print(render.explanation(found))
    return ExitCode.RED if found.contradictions or not found.pool_found else ExitCode.GREEN
