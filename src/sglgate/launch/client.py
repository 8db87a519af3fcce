"""The few SGLang endpoints that the suite asks, under the names that each release gives them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from sglgate.errors import SglgateError

if TYPE_CHECKING:
    import requests


class ServerError(SglgateError):
    """The server answered with an error, with something else than JSON, or not at all."""


class Client:
    """A connection to one server on the loopback interface.

    Every call has a deadline: a wedged engine keeps answering ``/health`` and never answers ``/generate``.
    """

    _CONNECT_S: Final = 2.0

    def __init__(self, port: int, api_key: str | None = None) -> None:
        # Deferred, also below: a collection makes no request, and this import costs it a tenth of its time.
        import requests

        self.base_url = f"http://127.0.0.1:{port}"
        self._session: requests.Session = requests.Session()
        # A proxy from the environment must never stand between the suite and its own server.
        self._session.trust_env = False
        if api_key is not None:
            self._session.headers["Authorization"] = f"Bearer {api_key}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Drop the connections."""
        self._session.close()

    def generate(
        self,
        prompt: str | Sequence[int] | None = None,
        *,
        max_new_tokens: int,
        deadline_s: float,
        ignore_eos: bool = False,
        **extra: Any,
    ) -> dict[str, Any]:
        """One greedy completion through the native endpoint.

        ``prompt`` is text or token ids. Returns SGLang's answer: ``text``, ``output_ids`` and ``meta_info``.

        Raises:
            ServerError: no valid answer within ``deadline_s``.
        """
        body: dict[str, Any] = dict(extra)
        body["text" if isinstance(prompt, str) else "input_ids"] = (
            prompt if isinstance(prompt, str) else list(prompt or ())
        )
        sampling = {"temperature": 0, "max_new_tokens": max_new_tokens, "ignore_eos": ignore_eos}
        body["sampling_params"] = {**sampling, **extra.get("sampling_params", {})}
        answer = self._call("POST", "/generate", deadline_s, body)
        if not isinstance(answer, dict) or "meta_info" not in answer:
            raise ServerError(f"/generate answered without meta_info: {str(answer)[:200]}")
        return answer

    def server_info(self, deadline_s: float = 20) -> dict[str, Any]:
        """The resolved server arguments and the scheduler's state (``/server_info``, ``/get_server_info`` to 0.5.9)."""
        return self._first_of(("/server_info", "/get_server_info"), deadline_s)

    def used_tokens(self, deadline_s: float = 20) -> int:
        """KV slots in use now, of the fullest DP rank, without what the prefix cache could give up.

        Source: ``/v1/loads``, there since 0.5.9.

        Raises:
            ServerError: this release has no such endpoint, or it does not state the figure.
        """
        loads = self._first_of(("/v1/loads",), deadline_s).get("loads") or []
        used = [load.get("num_used_tokens") for load in loads]
        if not used or None in used:
            raise ServerError("/v1/loads does not state num_used_tokens")
        return int(max(used))

    def abort(self, rid: str, deadline_s: float = 20) -> None:
        """Ask for the end of the request that was sent with this ``rid``."""
        self._call("POST", "/abort_request", deadline_s, {"rid": rid}, parse=False)

    def flush_cache(self, deadline_s: float = 20) -> None:
        """Empty the prefix cache; SGLang refuses while requests run."""
        self._call("POST", "/flush_cache", deadline_s, None, parse=False)

    def start_profile(self, folder: Path, steps: int, deadline_s: float) -> None:
        """Have the next ``steps`` forward passes profiled; every rank writes a Chrome trace into ``folder``."""
        body = {"output_dir": str(folder), "num_steps": steps, "activities": ["CPU", "GPU"]}
        self._call("POST", "/start_profile", deadline_s, body, parse=False)

    def _first_of(self, paths: Sequence[str], deadline_s: float) -> dict[str, Any]:
        for path in paths:
            try:
                answer = self._call("GET", path, deadline_s)
            except _NotFoundError:
                continue
            if not isinstance(answer, dict):
                raise ServerError(f"{path} answered with {type(answer).__name__}, not an object")
            return answer
        raise ServerError(f"this server has none of {', '.join(paths)}")

    def _call(
        self, method: str, path: str, deadline_s: float, body: Mapping[str, Any] | None = None, *, parse: bool = True
    ) -> Any:
        import requests

        try:
            answer = self._session.request(
                method, self.base_url + path, json=body, timeout=(self._CONNECT_S, deadline_s), allow_redirects=False
            )
        except requests.RequestException as error:
            raise ServerError(f"{path}: no answer ({type(error).__name__})") from error
        if answer.status_code == requests.codes.not_found:
            raise _NotFoundError(f"{path}: not found")
        if answer.status_code != requests.codes.ok:
            raise ServerError(f"{path}: HTTP {answer.status_code}: {answer.text[:200]}")
        if not parse:
            return None
        try:
            return answer.json()
        except ValueError:
            raise ServerError(f"{path}: not JSON: {answer.text[:200]!r}") from None


class _NotFoundError(ServerError):
    """The release has no such endpoint."""
