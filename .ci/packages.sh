# Debian packages for demo.sh and test.sh, which source this file. Installing missing ones needs root or
# sudo.

product_packages="gcc g++ cmake ninja-build pkg-config libuv1-dev libmsgpack-dev libssl-dev scdoc"
# The demo creates and checks its fields with Python's standard library alone.
demo_packages="python3"
test_packages="libcmocka-dev clang-14 libclang-rt-14-dev clang-format-14 python3-venv systemd"

# install_packages NAME…: prints the packages that it installs; silent if all are installed.
install_packages() {
    missing=""
    for package in "$@"; do
        case "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" in
        installed) ;;
        *) missing="$missing $package" ;;
        esac
    done
    [ -n "$missing" ] || return 0
    if ! command -v apt-get >/dev/null; then
        echo "These Debian packages, or equivalent ones, are required:$missing" >&2
        return 1
    fi
    as_root=""
    if [ "$(id -u)" -ne 0 ]; then
        if ! command -v sudo >/dev/null; then
            echo "Run as root, or install these packages first:$missing" >&2
            return 1
        fi
        as_root="sudo"
    fi
    echo "Installing:$missing"
    $as_root apt-get update -qq || return 1
    # shellcheck disable=SC2086
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
        $missing >/dev/null
}

# The toolkit's default folder is often not in PATH.
if ! command -v nvcc >/dev/null && [ -x /usr/local/cuda/bin/nvcc ]; then
    PATH="$PATH:/usr/local/cuda/bin"
fi
