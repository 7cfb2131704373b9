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
# Tests of the isolation of users need a second uid: as root, or in a user namespace with the uids of
# /etc/subuid. Otherwise they are skipped, which -rs and test.sh report.
users=""
if [ "$(id -u)" -ne 0 ] && unshare --user --map-root-user --map-auto true 2>/dev/null; then
    users="unshare --user --map-root-user --map-auto"
fi
# ctest runs a test on each core. NumPy's linear algebra with a thread for each core would spend many times
# its computing time in busy waits.
export OPENBLAS_NUM_THREADS="${OPENBLAS_NUM_THREADS:-1}"
PYTHONPATH="$here:$root/client/python${PYTHONPATH:+:$PYTHONPATH}" PYTHONDONTWRITEBYTECODE=1 \
    exec $users "$python" -m pytest -q -rs -p no:cacheprovider "$@"
