"""Parse command lines with this stack's own SGLang argument parser; nothing is started.

stdin: a JSON list of argument lists. stdout: {"errors": [null or the parser's complaint, one each], "flags": [...]}.
"""

import argparse
import contextlib
import io
import json
import sys


def parse_error(argv: list[str]) -> str | None:
    """The parser's own complaint about ``argv``, or None."""
    from sglang.srt.server_args import ServerArgs

    parser = argparse.ArgumentParser(prog="sglang")
    ServerArgs.add_cli_args(parser)
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            parser.parse_args(argv)
    except SystemExit:
        lines = [line for line in complaint.getvalue().splitlines() if ": error: " in line]
        return lines[-1].partition(": error: ")[2] if lines else complaint.getvalue().strip() or "refused"
    except Exception as error:  # a custom argparse type may raise anything
        return f"{type(error).__name__}: {error}"
    return None


def known_flags() -> list[str]:
    """Every option string that the parser knows."""
    from sglang.srt.server_args import ServerArgs

    parser = argparse.ArgumentParser(prog="sglang")
    ServerArgs.add_cli_args(parser)
    return sorted(parser._option_string_actions)


def main() -> None:
    """Answer one request."""
    requests = json.load(sys.stdin)
    # Importing sglang may print: stdout must hold the answer alone.
    with contextlib.redirect_stdout(sys.stderr):
        answer = {"errors": [parse_error(argv) for argv in requests], "flags": known_flags()}
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
