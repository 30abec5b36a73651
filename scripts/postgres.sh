# shellcheck shell=bash
# Sourced, after setup.sh, by the scripts that need a throwaway Postgres: it is there until the script ends.

# The server refuses to run as root.
as_postgres() {
    if [ "$(id -u)" != 0 ]; then
        "$@"
    elif id postgres >/dev/null 2>&1; then
        setpriv --reuid=postgres --regid=postgres --clear-groups -- "$@"
    else
        setpriv --reuid=nobody --regid="$(id -g nobody)" --clear-groups -- "$@"
    fi
}

find_psql() {
    local bin
    bin=$(find_postgres_bin) || return
    if [ -x "$bin/psql" ]; then printf '%s\n' "$bin/psql"; else command -v psql; fi
}

stop_postgres() {
    if [ -e "$work/cluster/postmaster.pid" ]; then
        as_postgres "$postgres_bin/pg_ctl" -D "$work/cluster" -m immediate -s -w stop || true
    fi
    rm -rf "$work"
}

# Starts one that listens on a socket in $work, a new folder that goes away with it. It syncs nothing.
start_postgres() {
    postgres_bin=$(find_postgres_bin) || fail 'the server programs of Postgres are missing; run scripts/setup'
    # Under /tmp, because the path of a socket has to be short.
    work=$(mktemp -d /tmp/longhaul.XXXXXX)
    trap stop_postgres EXIT
    trap 'exit 130' INT TERM
    if [ "$(id -u)" = 0 ]; then
        chown "$(as_postgres id -u)" "$work"
    fi
    # From /, since that user may not enter this folder.
    (
        cd /
        as_postgres "$postgres_bin/initdb" -D "$work/cluster" -U postgres -A trust -E UTF8 --locale=C \
            --no-sync --no-instructions &&
            as_postgres "$postgres_bin/pg_ctl" -D "$work/cluster" -l "$work/postgres.log" -s -w start \
                -o "-k $work -c listen_addresses= -c fsync=off"
    ) >"$work/start.log" 2>&1 ||
        fail "Postgres did not start: $(cat "$work/start.log" "$work/postgres.log" 2>/dev/null)"
}
