#!/bin/bash
# Installs missing packages, builds, and runs every test of the release build. The output ends with ctest's
# summary, what the tests that failed have printed, and a list of those that were skipped on this machine.
#   --format        check the formatting first
#   --sanitizers    also run the tests under ASan + UBSan, and under TSan
#   --fuzz SECONDS  also fuzz, for so many seconds of all cores together
#   --no-install    install nothing
set -euo pipefail
cd "$(dirname "$0")"
. .ci/packages.sh

install=yes format=no sanitizers=no fuzz_seconds=0
while [ $# -gt 0 ]; do
    case "$1" in
    --format) format=yes ;;
    --sanitizers) sanitizers=yes ;;
    --fuzz) fuzz_seconds="${2:?--fuzz needs a number of seconds}"; shift ;;
    --no-install) install=no ;;
    -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "$0: unknown option $1 (see --help)" >&2; exit 2 ;;
    esac
    shift
done

if [ "$install" = yes ]; then
    # shellcheck disable=SC2086
    install_packages $product_packages $test_packages
fi

jobs=$(nproc)
tests=$((jobs + (jobs + 1) / 2)) # at once: half of their time they wait
venv=build/venv

if ! cmp -s tests/requirements.txt "$venv/requirements.txt"; then
    echo "Python packages for the tests (tests/requirements.txt)"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check -r tests/requirements.txt
    cp tests/requirements.txt "$venv/requirements.txt"
fi

if [ "$format" = yes ]; then
    echo "== format"
    find base numerics protocol gpu server client tests bench -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.cpp' |
        xargs clang-format-14 --dry-run -Werror
fi

# build PRESET [cmake options]
build() {
    local preset="$1"
    shift
    echo "== $preset: build"
    cmake --preset "$preset" --log-level=STATUS "$@" >"build/$preset.log" 2>&1 ||
        { cat "build/$preset.log"; return 1; }
    grep -E 'nvcc|scdoc' "build/$preset.log" || true
    cmake --build --preset "$preset" -j "$jobs"
}

# tested PRESET [prefix command]: what failed is printed once more at the end, where it is found in a long log.
tested() {
    local preset="$1" status=0
    shift
    echo "== $preset: test"
    "$@" ctest --preset "$preset" -j "$tests" || status=$?
    if [ "$status" != 0 ]; then
        awk -v RS='\n[0-9]+/[0-9]+ Testing: ' '/\nTest Failed/ { print "== failed: " substr($0, 1, 8000) }' \
            "build/$preset/Testing/Temporary/LastTest.log"
    fi
    return "$status"
}

mkdir -p build
if [ "$sanitizers" = yes ]; then
    build asan
    tested asan
    build tsan
    # TSan's shadow memory does not cover the addresses of kernels with much address randomisation.
    same_addresses="setarch $(uname -m) -R"
    $same_addresses true 2>/dev/null || same_addresses=""
    # shellcheck disable=SC2086
    tested tsan $same_addresses
fi

# fuzz TARGET SECONDS
fuzz() {
    local target="$1"
    mkdir -p "build/fuzz/found_$target"
    (cd build/fuzz/tests/fuzz && "./fuzz_$target" -max_total_time="$2" -max_len=8192 \
        -dict=../../../../tests/fuzz/message.dict -artifact_prefix="fuzz_$target-" -print_final_stats=1 \
        "../../found_$target" "../../../../tests/fuzz/corpus/$target") >"build/fuzz_$target.log" 2>&1 ||
        { tail -n 50 "build/fuzz_$target.log"; return 1; }
    grep -E 'DONE|number_of_executed' "build/fuzz_$target.log"
}

if [ "$fuzz_seconds" -gt 0 ]; then
    build fuzz
    echo "== fuzz: replay the corpus, then $fuzz_seconds s of new inputs"
    ctest --preset fuzz
    fuzzers=()
    for target in splitter request frames; do # all at once, on as many cores
        fuzz "$target" $((fuzz_seconds / (jobs < 3 ? jobs : 3))) &
        fuzzers+=($!)
    done
    for fuzzer in "${fuzzers[@]}"; do
        wait "$fuzzer"
    done
fi

# An existing build folder may have been configured without them.
# In CI kernels are compiled for one architecture and its PTX: for all three they take too long there.
build release -DFDSERVER_TESTS=ON -DFDSERVER_BENCH=ON ${CI:+-DCMAKE_CUDA_ARCHITECTURES=90}
status=0
tested release || status=$?
if grep -h '^SKIPPED' build/release/Testing/Temporary/LastTest.log >build/skipped.txt; then
    echo "== release: not tested here"
    cat build/skipped.txt
fi
exit "$status"
