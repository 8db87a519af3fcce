"""What the machine did during a run: sampled all the while, written beside the evidence, held against void rules."""

from sglgate.telemetry.facts import void_facts
from sglgate.telemetry.sampler import INTERVAL_S, TELEMETRY, Telemetry, Window

__all__ = ["INTERVAL_S", "TELEMETRY", "Telemetry", "Window", "void_facts"]
