from fdtest import client, daemon, unchanged  # noqa: F401: fixtures of every file here
