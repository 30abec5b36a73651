# shellcheck shell=bash
# Sourced by the other scripts: installs what is missing to build and to run, and nothing else.
# Needs apt and root (or sudo) to install; elsewhere it says what to install by hand.
# Quiet when there is nothing to do, one line per thing it does.

say() { printf '%s\n' "$*" >&2; }

fail() {
    say "$*"
    exit 1
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

readonly POSTGRES_MAJOR_MIN=14 RUST_VERSION_MIN=1.95 AXE_VERSION=4.14.1

# Prints the major version of the server programs in a folder, or 0.
postgres_major() {
    local version=''
    if [ -x "$1/initdb" ] && [ -x "$1/postgres" ]; then
        version=$("$1/postgres" --version 2>/dev/null) || version=''
    fi
    [[ $version =~ [0-9]+ ]] && printf '%s\n' "${BASH_REMATCH[0]}" || printf '0\n'
}

# Prints the folder with the server programs of Postgres, the newest outside the PATH, or fails.
find_postgres_bin() {
    local path bin newest='' newest_major=$((POSTGRES_MAJOR_MIN - 1)) major
    if path=$(command -v initdb) &&
        [ "$(postgres_major "$(dirname "$path")")" -ge "$POSTGRES_MAJOR_MIN" ]; then
        dirname "$path"
        return
    fi
    for bin in /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /usr/libexec/postgresql* \
        /opt/homebrew/opt/postgresql*/bin /usr/local/opt/postgresql*/bin /usr/local/pgsql/bin \
        /Applications/Postgres.app/Contents/Versions/*/bin; do
        major=$(postgres_major "$bin")
        if [ "$major" -gt "$newest_major" ]; then
            newest=$bin
            newest_major=$major
        fi
    done
    [ -n "$newest" ] && printf '%s\n' "$newest"
}

# The tests take the programs that CHROMEDRIVER and CHROMIUM name, else those on the PATH.
find_browser() {
    command -v "${CHROMEDRIVER:-chromedriver}" >/dev/null || return
    if [ -n "${CHROMIUM:-}" ]; then
        command -v "$CHROMIUM" >/dev/null
    else
        { command -v chromium || command -v google-chrome; } >/dev/null
    fi
}

has_cjk_font() {
    command -v fc-list >/dev/null && [ -n "$(fc-list ':lang=zh' | head -n 1)" ]
}

# Debian keeps apart from Python what an environment of its own is made with.
has_venv() {
    command -v python3 >/dev/null && python3 -c 'import ensurepip, venv' 2>/dev/null
}

has_certificates() {
    [ -e /etc/ssl/certs/ca-certificates.crt ] || [ "$(uname)" = Darwin ] || [ -d /etc/pki/tls/certs ]
}

apt_install() {
    local try output
    say "installing with apt: $*"
    if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
        fail "this needs root: run it as root, or install these packages yourself: $*"
    fi
    for try in 1 2; do
        [ "$try" = 1 ] || say 'apt failed; trying once more'
        output=$({
            as_root apt-get update -qq && as_root env DEBIAN_FRONTEND=noninteractive \
                apt-get install -y -qq --no-install-recommends "$@"
        } 2>&1) && return
    done
    fail "$output
apt could not install: $*"
}

apt_offers() {
    local policy
    # In full before it is searched: a pipe that is closed early counts as a failure.
    policy=$(apt-cache policy "$1" 2>/dev/null) || return
    [[ $policy =~ Candidate:\ [^\(] ]]
}

# Ubuntu has the two as snaps alone, which cannot be installed everywhere.
check_browser_is_offered() {
    apt_offers chromium-driver && return
    as_root apt-get update -qq >/dev/null 2>&1 || true
    apt_offers chromium-driver ||
        fail "the tests drive a browser, and apt has no chromium-driver here: please install Chromium or \
Chrome and the chromedriver of the same version, so that both are on the PATH or named by CHROMIUM and CHROMEDRIVER"
}

# Only the programs are wanted: without this, Debian also makes a cluster and starts it.
forbid_main_cluster() {
    local conf=/etc/postgresql-common/createcluster.conf
    [ -e "$conf" ] && return
    as_root mkdir -p "$(dirname "$conf")"
    echo 'create_main_cluster = false' | as_root tee "$conf" >/dev/null
}

# Whether the cargo on the PATH will do: rustup's fetches the compiler we name, any other has to be new enough.
has_rust() {
    local cargo version
    cargo=$(command -v cargo) || return
    [ -x "$(dirname "$cargo")/rustup" ] && return
    version=$(cargo --version 2>/dev/null | cut -d ' ' -f 2)
    [ "$(printf '%s\n' "$RUST_VERSION_MIN" "$version" | sort -V | head -n 1)" = "$RUST_VERSION_MIN" ]
}

install_rust() {
    has_rust && return
    [ -n "${CARGO_HOME:-}${HOME:-}" ] ||
        fail "there is no cargo $RUST_VERSION_MIN or newer, and HOME does not say where to install one"
    local bin=${CARGO_HOME:-${HOME:-}/.cargo}/bin
    if [ -x "$bin/cargo" ] && [ -x "$bin/rustup" ]; then
        export PATH="$bin:$PATH"
        return
    fi
    say 'installing rustup; it fetches the compiler that rust-toolchain.toml names'
    local script
    script=$(curl --proto '=https' --tlsv1.2 -fsL https://sh.rustup.rs ||
        curl --proto '=https' --tlsv1.2 -fsSL https://static.rust-lang.org/rustup/rustup-init.sh) ||
        fail 'rustup could not be fetched; please install Rust as https://rustup.rs says'
    sh -s -- -y -q --no-modify-path --default-toolchain none <<<"$script" >/dev/null ||
        fail 'Rust could not be installed; please install it as https://rustup.rs says'
    export PATH="$bin:$PATH"
}

# The judge of the approval page in its tests (MPL-2.0, and no part of what is built or shipped).
# It has a folder of its own, since npm clears away what it was not told of.
install_axe() {
    local folder=$PWD/target/tools/axe
    grep -qs "\"version\": \"$AXE_VERSION\"" "$folder/node_modules/axe-core/package.json" && return
    say "installing axe-core $AXE_VERSION with npm"
    npm install --prefix "$folder" --no-save --no-audit --no-fund --silent "axe-core@$AXE_VERSION" ||
        fail "npm could not install axe-core $AXE_VERSION, which the tests of the approval page need"
}

# setup build: what building and running needs. setup tests: what the tests need, too.
setup() {
    local missing=()
    find_postgres_bin >/dev/null || missing+=(postgresql)
    command -v cc >/dev/null || missing+=(gcc libc6-dev)
    command -v make >/dev/null || missing+=(make)
    command -v curl >/dev/null || missing+=(curl)
    has_certificates || missing+=(ca-certificates)
    if [ "$1" = tests ]; then
        command -v git >/dev/null || missing+=(git)
        command -v npm >/dev/null || missing+=(npm)
        command -v groff >/dev/null || missing+=(groff-base)
        command -v openssl >/dev/null || missing+=(openssl)
        has_venv || missing+=(python3-venv)
        find_browser || missing+=(chromium chromium-driver)
        has_cjk_font || missing+=(fontconfig fonts-noto-cjk)
    fi
    if [ ${#missing[@]} -gt 0 ]; then
        command -v apt-get >/dev/null ||
            fail "please install what these packages of Debian stand for: ${missing[*]}"
        case " ${missing[*]} " in *' chromium-driver '*) check_browser_is_offered ;; esac
        case " ${missing[*]} " in *' postgresql '*) forbid_main_cluster ;; esac
        apt_install "${missing[@]}"
        find_postgres_bin >/dev/null ||
            fail "please install Postgres $POSTGRES_MAJOR_MIN or newer: what apt has here is older"
    fi
    install_rust
    [ "$1" != tests ] || install_axe
}
