"""The event loop: uvloop where it is installed, which halves what an event costs the client; else asyncio's
own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


def fast_loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """A factory for ``asyncio.Runner``; None is the standard loop."""
    try:
        import uvloop  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
