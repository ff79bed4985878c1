# shellcheck shell=bash
# Daemons, remembered by process id and start time: a process id alone may have been given to a stranger since.

# start_time PID: the kernel's start time of a process (clock ticks since boot), nothing if there is no such process.
start_time() {
    local stat
    { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
    stat=${stat##*) } # the name may hold spaces and parentheses
    # shellcheck disable=SC2086  # words are wanted: field 22 of the line is field 20 after the name
    set -- $stat
    [[ $1 != Z ]] && echo "${20}"
}

# daemon_pid NAME: the process id of a daemon that is alive and still ours.
daemon_pid() {
    local pid started
    { read -r pid started <"$state/pids/$1"; } 2>/dev/null || return 1
    [[ $(start_time "$pid") == "$started" ]] && echo "$pid"
}

daemon_is_alive() { daemon_pid "$1" >/dev/null; }

# spawn NAME COMMAND...: starts a daemon that stays in the foreground of its own session, its output in log/NAME.out.
# COMMAND must become the daemon by exec alone. Nothing of the caller's is inherited: no environment, terminal or descriptor
# (a pipe left open by a daemon would keep ctest and bats waiting).
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
        exec env -i PATH="$(slurm_path)"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
            SLURM_CONF="$state/etc/slurm.conf" setsid "$@"
    ) &
    pid=$!
    echo "$pid $(start_time "$pid")" >"$state/pids/$name"
    disown "$pid"
}

process_is_gone() { ! start_time "$1" >/dev/null; }

# stop_daemon NAME [SECONDS]: TERM, and KILL where that was not heard in time.
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

# kill_all LISTER...: kills whatever process ids LISTER prints, until it prints none: forks in between are met the next time.
kill_all() {
    local pids
    for _ in {1..100}; do
        pids=$("$@" 2>/dev/null) || true
        [[ -n $pids ]] || return 0
        # shellcheck disable=SC2086  # words are wanted
        kill -KILL $pids 2>/dev/null || true
        sleep 0.05
    done
    warn "still alive: ${pids//$'\n'/ }"
    return 1
}
