#!/bin/sh
# Runs pytest with a Python that has tests/requirements.txt: $FDSERVER_PYTHON, else build/venv, else python3.
here="$(cd "$(dirname "$0")" && pwd)"
root="$(cd "$here/../.." && pwd)"
python="${FDSERVER_PYTHON:-$root/build/venv/bin/python}"
[ -x "$python" ] || python=python3
if ! "$python" -c 'import hypothesis, msgpack, msgpack_numpy, numpy, pytest' 2>/dev/null; then
    echo "$python lacks the packages of tests/requirements.txt: run ./test.sh once, or" \
        "python3 -m venv build/venv && build/venv/bin/pip install -r tests/requirements.txt" >&2
    exit 1
fi
PYTHONPATH="$here${PYTHONPATH:+:$PYTHONPATH}" PYTHONDONTWRITEBYTECODE=1 \
    exec "$python" -m pytest -q -p no:cacheprovider "$@"
