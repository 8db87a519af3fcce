"""Start a real SGLang server, know the moment it serves or dies, and leave nothing of it behind."""

from sglgate.launch.errors import LaunchError, LeftoverError
from sglgate.launch.server import Server

__all__ = ["LaunchError", "LeftoverError", "Server"]
