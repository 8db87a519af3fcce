"""Profiles and candidates: TOML files in, frozen models out; every mistake names file, key and remedy."""

from sglgate.config.candidate import Candidate
from sglgate.config.candidate_files import load_candidates
from sglgate.config.profile import Profile, load_profiles

__all__ = ["Candidate", "Profile", "load_candidates", "load_profiles"]
