"""Judge SGLang servers with evidence: may this change go onto this machine?"""

__version__ = "0.1.0"
