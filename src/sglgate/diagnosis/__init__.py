"""From a server's log to the cause of its failure, the evidence, and what to change."""

from sglgate.causes import KNOWN_CAUSES
from sglgate.diagnosis.api import Diagnoser, diagnose_chunks, diagnose_file, diagnose_text
from sglgate.diagnosis.context import Context, Holder, parse_context, read_context
from sglgate.diagnosis.model import Diagnosis, EvidenceLine

__all__ = [
    "KNOWN_CAUSES",
    "Context",
    "Diagnoser",
    "Diagnosis",
    "EvidenceLine",
    "Holder",
    "diagnose_chunks",
    "diagnose_file",
    "diagnose_text",
    "parse_context",
    "read_context",
]
