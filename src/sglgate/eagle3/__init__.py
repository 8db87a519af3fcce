"""EAGLE-3 against its own baseline: same answers, acceptance, speed, and why."""
