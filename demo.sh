#!/bin/bash
# Installs missing packages, builds for this machine in build/demo, and demonstrates the service: a private
# fdserver (on the GPU, if there is one), a derivative of a field from disk, and a diffusion, each compared
# with its exact solution.
set -euo pipefail
cd "$(dirname "$0")"
. .ci/packages.sh
# shellcheck disable=SC2086
install_packages $product_packages $demo_packages

echo "== build"
mkdir -p build
# Code for the GPUs of other machines takes many minutes, so this build has a separate folder and none of it.
# gpu_architectures prints those of this machine's GPUs, as "90-real" or "80-real;90-real", or nothing.
gpu_architectures() {
    { nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null || true; } |
        sed -nE 's/^([89]|[1-9][0-9])\.([0-9])$/\1\2-real/p' | sort -u | paste -sd ';'
}
architectures=$(gpu_architectures)
if ! command -v nvcc >/dev/null; then
    echo "No nvcc was found, so this build has only the host worker. For a GPU: install the CUDA toolkit," \
        "then run ./demo.sh again."
    cuda="-DFDSERVER_CUDA=OFF"
elif [ -z "$architectures" ]; then
    echo "nvidia-smi shows no GPU (of compute capability 8.0 or newer), so this build has only the host" \
        "worker. To build the CUDA worker for every such GPU, in build/release (many minutes):" \
        "cmake --preset release && cmake --build --preset release"
    cuda="-DFDSERVER_CUDA=OFF"
else
    echo "The CUDA worker is built for the GPUs that nvidia-smi shows (CUDA architectures $architectures)."
    cuda="-DFDSERVER_CUDA=ON"
fi
cmake --preset demo "$cuda" "-DCMAKE_CUDA_ARCHITECTURES=${architectures:-90-real}" >build/demo.log 2>&1 ||
    { cat build/demo.log; exit 1; }
grep scdoc build/demo.log || true
cmake --build --preset demo -j "$(nproc)"

work=build/demo/fields
mkdir -p "$work"
export FDSERVER_SOCKET="$PWD/$work/fdserver.sock"
# The path of a Unix socket has at most 107 bytes.
[ ${#FDSERVER_SOCKET} -lt 108 ] || FDSERVER_SOCKET="$(mktemp -d)/fdserver.sock"
export FDSERVER_SOCKET="unix:$FDSERVER_SOCKET"
PATH="$PWD/build/demo/client:$PATH"

echo "== start fdserver"
build/demo/server/fdserver --listen "$FDSERVER_SOCKET" &
server=$!
trap 'kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true' EXIT
for _ in $(seq 300); do
    [ -S "${FDSERVER_SOCKET#unix:}" ] && break
    kill -0 "$server" 2>/dev/null || { echo "fdserver did not start" >&2; exit 1; }
    sleep 0.1
done
fdclient ping

cd "$work"
cat >fields.py <<'PYTHON'
"""write NAME: a field to NAME. check NAME: RMS and maximum error of the result in NAME."""
import array, math, sys

k = 2 * math.pi / 64
K = 2 * math.pi / 128
DT, STEPS = 0.05, 2000
wave = [math.sin(k * i) for i in range(64)]
slope = [k * math.cos(k * i) for i in range(64)]
heat = [math.sin(K * i) for i in range(128)]
decay = math.exp(-2 * K * K * DT * STEPS)  # ∂u/∂t = ∇²u from sin(Kx) sin(Ky)
fields = {
    "field.bin": lambda: (x + y - z for z in wave for y in wave for x in wave),
    "field.derivative.bin": lambda: (x for z in wave for y in wave for x in slope),
    "heat.bin": lambda: (x * y for y in heat for x in heat),
    "heat.diffusion.bin": lambda: (decay * x * y for y in heat for x in heat),
}
verb, name = sys.argv[1:]
values = array.array("f")
if verb == "write":
    values.extend(fields[name]())
    with open(name, "wb") as file:
        values.tofile(file)
else:
    with open(name, "rb") as file:
        values.frombytes(file.read())
    errors = [a - b for a, b in zip(values, fields[name](), strict=True)]
    rms = math.sqrt(math.fsum(e * e for e in errors) / len(errors))
    print(f"{name}: {len(errors)} points, RMS error {rms:.3e}, maximum {max(map(abs, errors)):.3e}")
PYTHON

# submit CHECKED-FILE ARGUMENTS…: run the command, then print its time and the error of its result.
submit() {
    local result="$1" begin end
    shift
    echo "\$ fdclient submit $*"
    begin=${EPOCHREALTIME/./}
    fdclient submit "$@"
    end=${EPOCHREALTIME/./}
    python3 fields.py check "$result"
    echo "took $(((end - begin) / 1000)).$(printf %03d $(((end - begin) % 1000))) ms, from file to file"
}

echo "== d/dx of sin(kx) + sin(ky) - sin(kz), 64 x 64 x 64, eighth order, periodic"
python3 fields.py write field.bin
submit field.derivative.bin field.bin

echo "== 2,000 steps of the heat equation on 128 x 128, eighth order, periodic"
python3 fields.py write heat.bin
submit heat.diffusion.bin heat.bin --shape 128,128 --op diffusion --steps 2000 --dt 0.05

echo "== stop fdserver (the fields stay in $work)"
kill "$server"
wait "$server"
trap - EXIT
