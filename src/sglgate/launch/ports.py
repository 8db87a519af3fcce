"""Free TCP ports on the loopback interface."""

from __future__ import annotations

import socket


def free_port() -> int:
    """A port that nothing listened on a moment ago.

    Another process may still take it before the server does; that ends in a launch diagnosed as ``port_in_use``.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
