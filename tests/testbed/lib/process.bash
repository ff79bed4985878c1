# shellcheck shell=bash
# A daemon is recorded by its process id and start time, because another process may get the same id
# after the daemon has ended.

# start_time PID: prints the kernel's start time of a process in clock ticks since boot. Prints
# nothing and fails if the process does not exist or is a zombie.
start_time() {
    local stat
    { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
    stat=${stat##*) } # The name may contain spaces and parentheses.
    # shellcheck disable=SC2086  # splits the words: field 22 of the line is field 20 after the name
    set -- $stat
    [[ $1 != Z ]] && echo "${20}"
}

# daemon_pid NAME: prints the process id of a daemon of this testbed that is alive. Fails if there
# is none.
daemon_pid() {
    local pid started
    { read -r pid started <"$state/pids/$1"; } 2>/dev/null || return 1
    [[ $(start_time "$pid") == "$started" ]] && echo "$pid"
}

daemon_is_alive() { daemon_pid "$1" >/dev/null; }

# spawn NAME COMMAND...: starts a daemon that does not fork, in a session of its own. Does not wait
# until the daemon is ready. The daemon's output goes to log/NAME.out. COMMAND must become the
# daemon by exec alone, because the recorded process id is COMMAND's. The daemon inherits no
# environment, terminal or descriptor of the caller; ctest and bats would wait for a pipe that a
# daemon keeps open.
spawn() {
    local name=$1 pid
    shift
    (
        cd /
        exec </dev/null >>"$state/log/$name.out" 2>&1
        for fd in /proc/self/fd/*; do
            fd=${fd##*/}
            ((fd > 2)) && eval "exec $fd>&-"
        done
        exec env -i LANG=C.UTF-8 \
            PATH="$(slurm_path_prefix)"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
            SLURM_CONF="$state/etc/slurm.conf" setsid "$@"
    ) &
    pid=$!
    echo "$pid $(start_time "$pid")" >"$state/pids/$name"
    disown "$pid"
}

process_is_gone() { ! start_time "$1" >/dev/null; }

# stop_daemon NAME [SECONDS]: sends TERM, and KILL if the daemon does not end within SECONDS (5 by
# default). Continues a paused daemon first. Does nothing if the daemon does not run.
stop_daemon() {
    local pid
    if pid=$(daemon_pid "$1"); then
        kill -CONT "$pid" 2>/dev/null || true
        kill -TERM "$pid" 2>/dev/null || true
        if ! wait_for "${2:-5}" process_is_gone "$pid"; then
            kill -KILL "$pid" 2>/dev/null || true
            wait_for 5 process_is_gone "$pid" || warn "$1 (process $pid) does not die"
        fi
    fi
    rm -f "$state/pids/$1"
}

# kill_all LISTER...: kills the processes whose ids LISTER prints, again and again until LISTER
# prints none, because a process may have forked meanwhile. Warns and fails if LISTER still prints
# some after 5 s.
kill_all() {
    local pids
    for _ in {1..100}; do
        pids=$("$@" 2>/dev/null) || true
        [[ -n $pids ]] || return 0
        # shellcheck disable=SC2086  # splits the process ids
        kill -KILL $pids 2>/dev/null || true
        sleep 0.05
    done
    warn "processes that are still alive after KILL: ${pids//$'\n'/ }"
    return 1
}
