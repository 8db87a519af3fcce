"""Small scripts that preflight runs in a stack's interpreter: torch and the standard library, no sglang.

Each writes one JSON object to ``--out``, also while it goes: what it wrote before it hung is what it says.
"""
