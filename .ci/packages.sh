# Debian packages for the set-up scripts, installed where they are missing. Source it; needs root or sudo
# only when there is something to install.

product_packages="gcc g++ cmake ninja-build pkg-config libuv1-dev libmsgpack-dev scdoc"
# The demo makes and checks its fields with the standard library alone.
demo_packages="python3"
test_packages="libcmocka-dev clang-14 libclang-rt-14-dev clang-format-14 python3-venv systemd"

# install_packages NAME…: says what it installs; silent where all are there.
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
        echo "These Debian packages, or their like, are needed:$missing" >&2
        return 1
    fi
    as_root=""
    if [ "$(id -u)" -ne 0 ]; then
        if ! command -v sudo >/dev/null; then
            echo "Run as root, or install first:$missing" >&2
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

# The toolkit's usual place is often not on the PATH of a bare shell.
if ! command -v nvcc >/dev/null && [ -x /usr/local/cuda/bin/nvcc ]; then
    PATH="$PATH:/usr/local/cuda/bin"
fi
