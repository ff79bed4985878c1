# shellcheck shell=bash
# A second user of the cluster, the attacker, who prepares hostile run directories. The tests run
# dlrun on these directories as another user, the victim.
#
#   make_attacker                 creates a user unless it exists; sets attacker; the testbed's
#                                 `down` removes the user
#   as_attacker COMMAND...        runs the command as that user, in a clean environment
#   fresh_attacker_dir            prints a new directory of the attacker that everybody can read
#   write_hostile_file PATH <CONTENT
#                                 writes a file of the attacker, readable by all, with its parent
#                                 folders
#   write_hostile_run PATH [TOKEN]
#                                 writes the run directory of a submitted job as the attacker; tests
#                                 overwrite its files afterwards
#   start_listener                starts the attacker's server and waits until it listens; sets
#                                 listener_port and listener_socket; stop_listener ends the server
#   requests                      prints the bytes that the listener got, one line per connection;
#                                 tests expect none
#   run_commands_on RUN           runs, as the victim, every command of README's table that accepts
#                                 a run, on RUN and without a terminal. Fails if a command does not
#                                 end by itself within 5 s or prints a raw control character. Sets
#                                 transcript to the commands and their output
#   hash_of PATH                  prints a hash of all files below PATH, including names, owners,
#                                 modes and times
#
# $dir is the victim's directory, in which dl() of helpers.bash runs dlrun.

# shellcheck disable=SC2154 # The test sets testbed and dir.
make_attacker() {
    attacker=mallory${DLRUN_TESTBED_USER#dlrun}
    getent passwd "$attacker" >/dev/null ||
        useradd --create-home --home-dir "$DLRUN_TESTBED_DIR/home/$attacker" --shell /bin/bash \
            --user-group \
            --comment "dlrun-testbed in $DLRUN_TESTBED_DIR" --key MAIL_DIR=/dev/null "$attacker"
    chmod 755 "$DLRUN_TESTBED_DIR/home/$attacker"
}

as_attacker() {
    env -i HOME="$DLRUN_TESTBED_DIR/home/$attacker" USER="$attacker" \
        PATH=/usr/local/bin:/usr/bin:/bin LANG=C.UTF-8 \
        setpriv --reuid="$attacker" --regid="$attacker" --init-groups --inh-caps=-all "$@"
}

fresh_attacker_dir() {
    as_attacker bash -c 'made=$(mktemp -d "$HOME/XXXXXX") && chmod 755 "$made" && echo "$made"'
}

# shellcheck disable=SC2016 # The inner shell expands $1.
write_hostile_file() {
    as_attacker bash -c 'umask 022 && mkdir -p "${1%/*}" && rm -f "$1" && cat >"$1"' - "$1"
}

write_hostile_run() {
    write_hostile_file "$1/submission.json" <<JSON
{"token":"${2:-$(printf 'a%.0s' {1..32})}","state":"submitted","cluster":"","job":"1","argv":["sbatch","--parsable"],"time":"2026-01-01T00:00:00.000Z"}
JSON
    write_hostile_file "$1/job.sh" <<'SH'
#!/bin/bash
#SBATCH --job-name=mnist
touch "$HOME/canary-script"
SH
}

start_listener() {
    local folder
    folder=$(fresh_attacker_dir)
    requests_file=$folder/requests
    # shellcheck disable=SC2034 # The test uses it.
    listener_socket=$folder/socket
    as_attacker python3 - "$folder" 3>&- <<'PY' &
import selectors, socket, sys
folder = sys.argv[1]
servers = [socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_UNIX)]
servers[1].bind(folder + "/socket")
servers[1].listen()
waiting = selectors.DefaultSelector()
for server in servers:
    waiting.register(server, selectors.EVENT_READ)
open(folder + "/requests", "w").close()
import os
os.chmod(folder + "/socket", 0o777)
open(folder + "/port.new", "w").write(str(servers[0].getsockname()[1]))
os.rename(folder + "/port.new", folder + "/port")
while True:
    for key, _ in waiting.select():
        peer, _ = key.fileobj.accept()
        peer.settimeout(1)
        try:
            got = peer.recv(65536)
        except OSError:
            got = b""
        with open(folder + "/requests", "a") as file:
            file.write(repr(got) + "\n")
        peer.close()
PY
    listener=$!
    wait_until 20 test -s "$folder/port"
    # shellcheck disable=SC2034 # The test uses it.
    listener_port=$(<"$folder/port")
}
stop_listener() {
    [[ -z ${listener-} ]] || kill "$listener" 2>/dev/null || true
    listener=
}
requests() { cat "$requests_file"; }

hash_of() {
    (cd "$1" && find . -printf '%p %u %m %T@ %l\n' -type f -exec sha256sum {} + | sort | sha256sum)
}

run_commands_on() {
    local run=$1 words since took_ms code text
    transcript=
    for words in "status" "status --json" "logs" "logs --rank 0" "logs -f" "logs -n 5" "wait" \
        "du" "du --json" "rm --yes" "rm --dry-run" \
        "wait --json" "top --once" "top --json" "sweep" "sweep --json" \
        "diff" "attach --dry-run" "attach -- true" "forward 8888" "ssh-config" \
        "ssh-config --connect" "resubmit" "resubmit --force" "cancel" \
        "notify" "notify --relay" "track sync" "submit --continue" \
        "report -o -" "report" "ls --runs ${run%/*}" "ls --json --runs ${run%/*}" "ls -a"; do
        case $words in
        ls*) ;;
        attach* | forward* | ssh-config\ *) words="${words%% *} $run ${words#* }" ;;
        *) words+=" $run" ;;
        esac
        since=${EPOCHREALTIME/./} code=0
        # shellcheck disable=SC2086 # splits the words
        text=$(set -o pipefail && timeout -k 1 20 "$testbed/as_user" \
            bash -c 'cd "$1" && shift && exec dlrun "$@"' - "$dir" $words 2>&1 </dev/null |
            tr -d '\0') || code=$?
        took_ms=$(((${EPOCHREALTIME/./} - since) / 1000))
        transcript+="\$ dlrun $words"$'\n'"$text"$'\n'"(code $code, $took_ms ms)"$'\n'
        ((code < 124 && took_ms < 5000)) || { printf '%s' "$transcript" >&2 && return 1; }
        if LC_ALL=C grep -q $'[\x01-\x08\x0b-\x1f\x7f]' <<<"$text"; then
            echo "dlrun $words printed raw control characters" >&2 && return 1
        fi
    done
}
