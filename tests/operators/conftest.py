from fdtest import client, daemon  # noqa: F401: fixtures of every file here
