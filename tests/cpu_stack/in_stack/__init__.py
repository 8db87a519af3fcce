"""Checks of the torch ops. They need torch, so they run in the stack's interpreter: see
../test_in_stack.py."""

import contextlib
import re


@contextlib.contextmanager
def raises(error, pattern):
    """What `pytest.raises` does; a stack has no pytest."""
    try:
        yield
    except error as caught:
        if re.search(pattern, str(caught)):
            return
        raise AssertionError(f"{caught} does not match {pattern}") from caught
    raise AssertionError(f"{error.__name__} was not raised")
