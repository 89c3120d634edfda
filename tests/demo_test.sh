#!/usr/bin/env bash
# scripts/demo as a person or CI runs it: every row is there, the commands it
# prints work, failures are told, and nothing is left behind however it ends.
#
#   usage: tests/demo_test.sh      PGWEIR_BIN: the binary (default: target/release/pgweir)
# shellcheck disable=SC2030,SC2031  # one block has folders of its own, in a subshell
set -euo pipefail
cd -- "$(dirname -- "$0")/.."
binary=${PGWEIR_BIN:-}

# The demo puts all its files here, so that what it leaves behind can be seen.
files=$(mktemp -d)
chmod 755 "$files"
results=$(mktemp -d)
demo=
beside=

clean_up() {
    status=$?
    trap - EXIT
    for process in $demo $beside; do
        kill -TERM "$process" 2>/dev/null || true
        wait "$process" || true
    done
    if [ "$status" != 0 ]; then tail -n 80 "$results"/{,beside/}{out,progress} "$results/terminal" >&2 2>/dev/null || true; fi
    rm -rf "$files" "$files.beside" "$results"
    exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

fail() {
    echo "demo_test: $*" >&2
    exit 1
}

# start BINARY OPTION...: runs the demo; its output is then in $results.
start() {
    local binary=$1
    shift
    # What the one before has said is not to be taken for this one's.
    : >"$results/out"
    : >"$results/progress"
    TMPDIR=$files PGWEIR_BIN=$binary scripts/demo --reports "$results/reports" "$@" </dev/null >"$results/out" 2>"$results/progress" &
    demo=$!
}

# until_says FILE REGEX: waits for such a line.
until_says() {
    for _ in $(seq 1800); do
        if grep -Eq -- "$2" "$results/$1"; then return; fi
        kill -0 "$demo" 2>/dev/null || fail "ended without saying: $2"
        sleep 0.1
    done
    fail "still does not say: $2"
}

says() { grep -Eq -- "$2" "$results/$1" || fail "does not say: $2"; }

# times N REGEX: standard output has N such lines.
times() {
    local found
    found=$(grep -Ec -- "$2" "$results/out") || true
    [ "$found" = "$1" ] || fail "has $found lines and not $1 of: $2"
}

# ends_with STATUS: the demo ends so, and leaves no file and no process behind.
ends_with() {
    local status=0 entry
    wait "$demo" || status=$?
    demo=
    [ "$status" = "$1" ] || fail "ended with status $status, not $1"
    [ -z "$(ls -A "$files")" ] || fail "left files behind: $(find "$files" | head -n 5)"
    for entry in /proc/[0-9]*; do
        # PostgreSQL's processes work in its data folder, pgweir and pgbench name theirs.
        if { readlink "$entry/cwd" && tr '\0' ' ' <"$entry/cmdline"; } 2>/dev/null | grep -qF "$files/"; then
            fail "left process ${entry#/proc/} behind: $(tr '\0' ' ' <"$entry/cmdline")"
        fi
    done
}

# psql_printed KIND OPTION...: runs the command that the demo prints for it.
psql_printed() {
    local command
    command=$(sed -n "s/^  $1  *psql /psql -X -A -t /p" "$results/out")
    [ -n "$command" ] || fail "prints no command for $1"
    shift
    sh -c "$command \"\$@\"" sh "$@" || fail "does not work: $command"
}

echo 'the whole, until Ctrl-C'
start "$binary" --quick --keep-running
until_says out '^Both are running'
if grep -q FAILED "$results"/{out,progress}; then fail 'a run failed'; fi
figures='[0-9,]+ +[0-9.,]+ ms +[0-9.,]+ ms +[0-9,]+'
times 1 '^8 clients that log in anew'
times 1 '^64 clients that stay'
times 1 '^1,000 clients that stay'
times 3 "^  direct +$figures"
times 3 "^  through pgweir +$figures.*[0-9] x TPS$"
# The pool is full, and direct has a server process for each client and no other.
times 2 "^  through pgweir .* ms   16( |$)"
times 1 "^  direct .* ms   64( |$)"
times 1 "^  direct .* ms   1,000( |$)"
for row in 'Short connections' '64 clients' '1,000 clients'; do
    times 1 "^  $row: .*(times as many|more|as many|fewer) queries"
done
says progress '^\[8/8\] 1,000 clients, through pgweir \(about [0-9]+ s left\)$'
says progress '^ +[0-9,]+ TPS$'
if grep -q $'\033' "$results"/{out,progress}; then fail 'escape sequences without a terminal'; fi
# The laboratory, its conclusion (one round says nothing of the noise), and its report, which stays.
times 1 '^How many connections this server is fastest with'
times 1 '^  The rounds are too few and too different to recommend'
says progress '^\[[0-9]+/[0-9]+\] direct, 16 clients, round 1 \(about [0-9]+ s left\)$'
report=$(sed -n 's/^  report   //p' "$results/out")
grep -q '<svg' "$report" || fail 'the report of the laboratory has no chart'
[ "$(psql_printed pooled -c 'select 6 * 7')" = 42 ] || fail 'pooled: wrong answer'
[ "$(psql_printed direct -c 'select 6 * 7')" = 42 ] || fail 'direct: wrong answer'
psql_printed console | grep -q '^bench|postgres|' || fail 'SHOW POOLS does not show the pool'
kill -INT "$demo"
ends_with 0

echo 'Ctrl-C while it sets up, and while it runs'
start "$binary" --quick --no-wait
until_says progress '^\[1/8\]'
kill -INT "$demo"
ends_with 130
start "$binary" --quick --no-wait
until_says progress '^\[4/8\]'
sleep 1
kill -INT "$demo"
ends_with 130

# broken FILE: a program that as a pooler listens on the port of its configuration and closes what comes. In its laboratory
# it is `$laboratory`, and fails where that is empty.
broken() {
    cat >"$1" <<PYTHON
#!/usr/bin/env python3
import os, re, socket, sys
if sys.argv[1] == "--version":
    sys.exit(print("broken 1.0"))
if sys.argv[1] == "lab" and "$laboratory":
    os.execv("$laboratory", sys.argv)
port = int(re.search(r"listen_port = (\\d+)", open(sys.argv[1]).read())[1])
with socket.create_server(("127.0.0.1", port)) as listener:
    while True:
        listener.accept()[0].close()
PYTHON
    chmod +x "$1"
}

# Beside what follows, with folders of its own: the laboratory comes last and late. It comes sooner if no run through pgweir
# takes its time.
mkdir "$results/beside" "$files.beside"
chmod 755 "$files.beside"
laboratory=$(realpath "${binary:-target/release/pgweir}") broken "$results/beside/broken"
(
    files=$files.beside
    results=$results/beside
    trap 'kill -TERM "$demo"; wait "$demo"; exit 1' TERM
    start "$results/broken" --quick --no-wait
    until_says progress 'direct, 2 clients, round 1'
    kill -INT "$demo"
    ends_with 130
    [ -z "$(ls "$results/reports")" ] || fail 'half a report of the laboratory was left behind'
) &
beside=$!

echo 'a pooler that takes no connections fails, in words and in status'
laboratory='' broken "$results/broken"
start "$results/broken" --quick --no-wait
ends_with 1
times 3 '^  through pgweir +FAILED$'
times 3 "^  direct +$figures"
times 3 'no comparison, because the run through pgweir failed'
times 1 'pgweir lab connections ended with status 1$'

wait "$beside" || fail 'Ctrl-C in the laboratory'
beside=

echo 'at a terminal'
TMPDIR=$files PGWEIR_BIN=$binary CI=1 TERM=xterm NO_COLOR='' script -qec \
    "stty cols 80; echo \$\$ >'$results/shell'; exec scripts/demo --quick" /dev/null >"$results/terminal" </dev/null &
demo=$!
until_says terminal $'\r\033\\[K'
until_says terminal $'\033\\[32m'
kill -TERM "$(cat "$results/shell")"
if wait "$demo"; then fail 'was not stopped by the signal'; fi
demo=
demo_terminal=$(NO_COLOR=1 TMPDIR=$files PGWEIR_BIN=$binary TERM=xterm script -qec 'timeout 4 scripts/demo --quick' /dev/null </dev/null || true)
if grep -q $'\033\[[0-9]*m' <<<"$demo_terminal"; then fail 'colour in spite of NO_COLOR'; fi
[ -z "$(ls -A "$files")" ] || fail "left files behind: $(find "$files" | head -n 5)"
echo 'the demo is as it should be'
