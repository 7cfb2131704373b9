from fdtest import client, daemon, no_fields_left, unchanged  # noqa: F401: fixtures of every file here
