#!/usr/bin/env bash
# All checks of a change to gpu/ on a machine with a GPU, in one call:
#
#     bench/gpu_check.sh BUILD RESULTS [STEP…]
#
# BUILD: a build folder with CUDA (built here, or elsewhere with the preset `portable` and copied).
# RESULTS: the folder for logs and result files. STEPs, by default all but the last five:
#     equal      bit for bit against the host backend, on random jobs
#     sanitize   compute-sanitizer's memcheck and racecheck, on small shapes: random jobs, every row of
#                bench_kernels, and the same by the kernel families that are not the first choice there
#     kernels    bench_kernels: floors, bars, the classical kernels; a picture if matplotlib is installed
#     seeds      the published tables, through the daemon
#     service    the service's tests and its benchmark, on the GPU: floors, bars, alternatives
#     counters   the bounds of the rows that missed their bar in the step `kernels`, by Nsight Compute
#     huge       like equal, also with fields of more than 2^31 points
#     peers      bench/peers.py: CuPy, JAX and torch.compile, if installed
#     first_use  bench/first_use.py, as root: a new stencil from its first job on
#     general    bench/general.py: every kind of job as a client sees it, beside JAX and CuPy, if installed
set -u
build=$(cd "$1" && pwd)
mkdir -p "$2"
results=$(cd "$2" && pwd)
shift 2
steps=${*:-equal sanitize kernels seeds service}
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root" || exit 1
export FDSERVER_COMMIT=${FDSERVER_COMMIT:-$(git rev-parse --short HEAD 2>/dev/null)}
export FDSERVER_BUILD=$build FDSERVER_TEST_DEVICE=cuda:0 FDSERVER_PYTHON=${FDSERVER_PYTHON:-python3}
summary=()
failed=0

# step NAME COMMAND…: log to RESULTS/NAME.log, and record the exit status.
step() {
    local name=$1 begin=$SECONDS status
    shift
    "$@" >"$results/$name.log" 2>&1
    status=$?
    [ $status -eq 0 ] || { failed=1; echo "--- $name failed ($status), its last lines:"; tail -n 30 "$results/$name.log"; }
    summary+=("$(printf '%-22s %-7s %4ds  %s' "$name" "$([ $status -eq 0 ] && echo ok || echo "FAILED")" \
        $((SECONDS - begin)) "$(tail -n 1 "$results/$name.log" | cut -c1-120)")")
}

equal=$build/tests/operators/backends_equal
kernels=$build/bench/bench_kernels
for wanted in $steps; do
    case $wanted in
    equal) step equal "$equal" --out "$results/backends_equal.json" ;;
    huge) step huge "$equal" --jobs 10 --huge --out "$results/backends_equal_huge.json" ;;
    sanitize)
        for tool in memcheck racecheck; do
            sanitized=(timeout 240 compute-sanitizer --tool "$tool" --error-exitcode 9)
            step "$tool-jobs" "${sanitized[@]}" "$equal" --quick --jobs 20
            step "$tool-rows" "${sanitized[@]}" "$kernels" --device cuda:0 --small
            step "$tool-others" env FDSERVER_KERNELS=along_y_z,along_x "${sanitized[@]}" "$kernels" --device cuda:0 --small
            step "$tool-blocking" env FDSERVER_KERNELS=temporal_blocking_3d "${sanitized[@]}" "$kernels" --device cuda:0 --small \
                --only 'diffusion 3D'
        done
        ;;
    kernels)
        step kernels "$kernels" --device cuda:0 --json "$results/kernels.json"
        ! "$FDSERVER_PYTHON" -c 'import matplotlib' 2>/dev/null ||
            step picture "$FDSERVER_PYTHON" bench/draw.py "$results/kernels.json" "$results/kernels.png"
        ;;
    counters)
        step counters "$FDSERVER_PYTHON" bench/counters.py "$kernels" --missed "$results/kernels.json" \
            --json "$results/counters.json"
        ;;
    general) step general "$FDSERVER_PYTHON" bench/general.py --build "$build" --json "$results/general.json" ;;
    first_use) step first_use "$FDSERVER_PYTHON" bench/first_use.py --build "$build" --json "$results/first_use.json" ;;
    peers) step peers "$FDSERVER_PYTHON" bench/peers.py --json "$results/peers.json" ;;
    seeds) step seeds tests/lib/pytest.sh -s tests/operators/test_seeds.py ;;
    service)
        for story in arrays fields regions chain pipelining workers trace; do
            step "service-$story" tests/lib/pytest.sh "tests/service/test_$story.py"
        done
        step service-bench "$FDSERVER_PYTHON" bench/service.py --build "$build" --device cuda:0 --json "$results/service.json"
        ;;
    *) echo "no step is called $wanted"; failed=1 ;;
    esac
done
for table in kernels counters service-bench peers; do
    [ ! -f "$results/$table.log" ] || cat "$results/$table.log"
done
[ ! -f "$results/seeds.log" ] || grep -v '^[. ]*$' "$results/seeds.log" | tail -n 40
nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem --format=csv,noheader 2>/dev/null
printf '%s\n' "${summary[@]}"
exit $failed
