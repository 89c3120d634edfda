# shellcheck shell=sh
# What the scripts of this folder share; sourced, never run.
#
# Results go to standard output (a path, so that callers can capture it);
# everything meant for a person goes to standard error.

checkout=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }

die() {
    say "$*"
    exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

# Can any user of this machine walk into this folder? (/root usually says no.)
open_to_all() {
    walk=$1
    while [ "$walk" != / ]; do
        case "$(stat -c %A "$walk")" in
            *[xt]) ;;
            *) return 1 ;;
        esac
        walk=$(dirname "$walk")
    done
}

# Where downloads that outlive one run are kept. Set PGWEIR_CACHE to share it
# between checkouts. PostgreSQL and PgBouncer refuse to run as root, so root's
# cache must be where other users can read it, wherever the checkout is.
# shellcheck disable=SC2034 # used by the scripts that source this file
if [ -n "${PGWEIR_CACHE:-}" ]; then
    cache=$PGWEIR_CACHE
elif [ "$(id -u)" != 0 ] || open_to_all "$checkout"; then
    cache=$checkout/.cache
else
    cache=/var/cache/pgweir
fi

# Runs a command as root: directly, or by sudo without asking for a password.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif have sudo && sudo -n true 2>/dev/null; then
        sudo -n "$@"
    else
        say "root is needed for: $* (run this as root, or allow sudo without a password)"
        return 1
    fi
}

# Runs a command quietly; its output is shown only when it fails.
quietly() {
    quiet_log=$(mktemp)
    if "$@" >"$quiet_log" 2>&1 </dev/null; then
        rm -f "$quiet_log"
    else
        quiet_status=$?
        cat "$quiet_log" >&2
        rm -f "$quiet_log"
        return "$quiet_status"
    fi
}

# apt-get that asks nothing. `env` carries the variable through sudo.
apt_get() {
    quietly as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "$@"
}

apt_updated=
apt_update_once() {
    [ -n "$apt_updated" ] && return 0
    apt_get update || say "apt-get update failed; going on with the package lists that are here"
    apt_updated=yes
}

# Installs the packages named, without those that are only recommended.
apt_install() {
    have apt-get || die "needed and not here: $* (Debian's names; this system has no apt-get, so install their like by hand)"
    apt_update_once
    say "installing $*"
    apt_get install --yes --no-install-recommends "$@" || die "apt-get could not install: $*"
}
