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
# Tests of users who must not see each other need a second uid: root has it, and so has a user namespace
# with the uids of /etc/subuid. Where neither is there they are skipped, which -rs and test.sh say.
users=""
if [ "$(id -u)" -ne 0 ] && unshare --user --map-root-user --map-auto true 2>/dev/null; then
    users="unshare --user --map-root-user --map-auto"
fi
# ctest has given each processor a test: NumPy's linear algebra beside them, by a thread of its own for each
# processor, would wait for the others' in a loop, many times as long as it computes.
export OPENBLAS_NUM_THREADS="${OPENBLAS_NUM_THREADS:-1}"
PYTHONPATH="$here${PYTHONPATH:+:$PYTHONPATH}" PYTHONDONTWRITEBYTECODE=1 \
    exec $users "$python" -m pytest -q -rs -p no:cacheprovider "$@"
