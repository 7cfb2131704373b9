from fdtest import client, daemon, mapped_once, unchanged  # noqa: F401: fixtures of every file here
