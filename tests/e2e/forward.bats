#!/usr/bin/env bats
# `dlrun forward` and `dlrun ssh-config`: into a running job. Both of Slurm's process trackers.
# timeout: 300

load helpers
load trackers

# serving_job OPTIONS...: submits a job of two nodes on which a web server runs beside each rank's
# wait, once the file `serve` exists; waits until it runs
serving_job() {
    cat >"$dir/serve.py" <<'PY'
import http.server
import os
import time

while not os.path.exists("serve"):
    time.sleep(0.05)
os.chdir("www")
open(f"up-{os.environ['DLRUN_NODE_RANK']}", "w").close()
http.server.ThreadingHTTPServer(("127.0.0.1", 8888),
                                http.server.SimpleHTTPRequestHandler).serve_forever()
PY
    cat >"$dir/serve.yaml" <<'YAML'
name: serve
resources: {nodes: 2, tasks_per_node: 1, cpus_per_task: 2, time: 5m}
environment:
  vars: {GREETING: "it's; $(id) \"here\""}
  setup: echo set up on $(hostname)
launch: {preset: plain, command: [python3, serve.py]}
YAML
    as_user mkdir "$dir/www"
    echo "<h1>a page of the job</h1>" >"$dir/www/index.html"
    [[ ${1:-} == later ]] || touch "$dir/serve"
    dl submit serve.yaml
    job=$(dl status last --json | jq -r .job)
    [[ ${1:-} == later ]] || wait_until 30 servers_are_up
    wait_until 30 is_running
}
servers_are_up() { [[ -e $dir/www/up-0 && -e $dir/www/up-1 ]]; }
is_running() { [[ $(dl status last --json | jq -r .state) == running ]]; }

# start_forward ARGUMENTS...: starts dlrun forward in the background with its output in forward.out
# and forward.err; sets started, its process id, and address, once it serves
start_forward() {
    rm -f "$dir"/forward.*
    as_user bash -c 'cd "$1" && shift && echo $$ >forward.pid &&
        exec dlrun forward "$@" >forward.out 2>forward.err' - "$dir" "$@" </dev/null 3>&- &
    shell=$!
    wait_until 30 test -s "$dir/forward.out"
    started=$(<"$dir/forward.pid")
    address=$(sed 's/ is port .*//;q' "$dir/forward.out")
}
# ended: sets code to the exit code of dlrun forward
ended() {
    code=0
    wait "$shell" || code=$?
    cat "$dir/forward.err"
}
fetch() { curl -sS --noproxy '*' --max-time 60 "$@"; }

# nothing_is_left: the job has only its own step, and no process of a session is left anywhere
nothing_is_left() {
    [[ $(squeue -h -s -j "$job" -o %i | grep -cv -e batch -e extern) == 1 ]] || return 1
    ! pgrep -u "$DLRUN_TESTBED_USER" -f 'dlrun-agent (relay|sshd)|dlrun forward|sshd -i|sshd: ' -a
}
job_is_gone() { [[ -z $(squeue -h -j "$job" 2>/dev/null) ]]; }

@test "forward: a page of a job's node, 200 MB to the byte, twenty connections at once, a slow reader beside them" {
    on cgroup
    serving_job
    as_user bash -c 'head -c 200000000 /dev/urandom >"$1/www/large"' - "$dir"
    start_forward last 8888:0
    [[ $(fetch "$address/") == "<h1>a page of the job</h1>" ]]
    # A reader that reads nothing while the others go on.
    exec 4<>"/dev/tcp/127.0.0.1/${address##*:}"
    printf 'GET /large HTTP/1.0\r\n\r\n' >&4
    since=${EPOCHREALTIME/./}
    fetch "$address/large" -o "$BATS_TEST_TMPDIR/large"
    echo "# 200 MB in $(((${EPOCHREALTIME/./} - since) / 1000)) ms" >&3
    cmp "$BATS_TEST_TMPDIR/large" "$dir/www/large"
    for i in {1..20}; do
        fetch "$address/index.html" -o "$BATS_TEST_TMPDIR/page-$i" &
        pages+=($!)
    done
    wait "${pages[@]}"
    for i in {1..20}; do cmp "$BATS_TEST_TMPDIR/page-$i" "$dir/www/index.html"; done
    exec 4>&-
    # One step carries all of it, also from the other node and as another port.
    [[ $(squeue -h -s -j "$job" -o %i | grep -cv -e batch -e extern) == 2 ]]
    # A port of this machine that is taken.
    run dl forward last 8888:"${address##*:}"
    [ "$status" -eq 2 ]
    [[ $output == *"is free: give 8888:"* ]]
    kill -INT "$started"
    ended
    [ "$code" -eq 130 ]
    wait_until 20 nothing_is_left
    is_running
}

@test "forward: a program that does not listen yet is waited for; a socket that only the user can open" {
    on cgroup
    serving_job later
    as_user bash -c 'cd "$1" && SSH_CONNECTION=x dlrun forward last 8888 --node n2 >forward.out \
        2>forward.err & echo $! >"$1/forward.pid"; wait $!' - "$dir" </dev/null 3>&- &
    # shellcheck disable=SC2030 # the test's variable
    shell=$!
    wait_until 30 test -s "$dir/forward.out"
    socket=$(sed 's/ is port 8888 of n2$//;q' "$dir/forward.out")
    [[ $(stat -c '%a %U' "${socket%/*}") == "700 $DLRUN_TESTBED_USER" ]]
    grep -q "ssh -N -L 8888:$socket " "$dir/forward.err"
    fetch --unix-socket "$socket" http://node/ -o "$BATS_TEST_TMPDIR/page" &
    page=$!
    wait_until 20 grep -q 'nothing listens on port 8888 of n2 yet' "$dir/forward.err"
    as_user touch "$dir/serve"
    wait "$page"
    cmp "$BATS_TEST_TMPDIR/page" "$dir/www/index.html"
    grep -q 'port 8888 of n2 answers now' "$dir/forward.err"
    # The job ends while it forwards.
    dl cancel last
    ended
    [ "$code" -eq 0 ]
    grep -q 'is cancelled; the forwarding has ended' "$dir/forward.err"
    [ ! -e "${socket%/*}" ]
    wait_until 20 job_is_gone
    run dl forward last 8888
    [ "$status" -eq 2 ]
    [[ $output == *"is cancelled; dlrun can only enter a job that runs"* ]]
}

@test "forward: Ctrl-C, a terminal that goes away, kill -9 and a killed srun leave no step and no process" {
    for tracker in cgroup linuxproc; do
        on "$tracker"
        serving_job
        for signal in TERM HUP KILL; do
            start_forward last 8888:0
            fetch "$address/" >/dev/null
            kill -"$signal" "$started"
            ended
            [[ $code == 130 || $signal == KILL ]]
            wait_until 20 nothing_is_left
        done
        start_forward last 8888:0
        pkill -KILL -P "$started" srun
        ended
        [ "$code" -eq 3 ]
        # Slurm does not tell the relay; it ends without a sign of life.
        wait_until 40 nothing_is_left
        is_running
    done
}

# The end of an ssh that runs in the background.
# shellcheck disable=SC2031 # the test's variable
ended_ssh() { wait "$shell" || true; }
# The commands of ssh, with the block of the run alone.
ssh_to() { as_user ssh -F "$dir/config" "$host" "$@"; }

@test "ssh-config: a session in the job's environment, scp of 50 MB, ssh -N with -L and -D; nothing is left" {
    for tracker in cgroup linuxproc; do
        on "$tracker"
        serving_job
        as_user bash -c 'cd "$1" && dlrun ssh-config last --node n2 >config 2>err' - "$dir" ||
            { cat "$dir/err" && false; }
        host=$(sed -n 's/^Host //p' "$dir/config")
        run ssh_to 'hostname; echo "$SLURM_JOB_ID $SLURM_STEP_NUM_TASKS $GREETING"; tty || nproc >/dev/null'
        echo "$output"
        [ "$status" -eq 0 ]
        [[ $output == *"n2"*"$job 1 it's; \$(id) \"here\""* ]]
        # sshd gives a terminal to the group tty, which an ordinary user's sshd cannot do by itself.
        if grep -q 'devpts.*gid=5' /proc/mounts; then [[ $(ssh_to -tt tty) == /dev/pts/* ]]; fi
        run ssh_to exit 7
        [ "$status" -eq 7 ]
        head -c 50000000 /dev/urandom >"$dir/fifty"
        as_user scp -q -F "$dir/config" "$dir/fifty" "$host:/tmp/fifty"
        as_user scp -q -F "$dir/config" "$host:/tmp/fifty" "$dir/again"
        cmp "$dir/fifty" "$dir/again"
        # Like an editor: no command, a forwarded port, a SOCKS proxy, and a server that stays.
        socks=127.0.0.1:$(python3 -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])')
        as_user ssh -F "$dir/config" -N -L "$dir/forwarded:127.0.0.1:8888" -D "$socks" \
            "$host" </dev/null 3>&- &
        # shellcheck disable=SC2030 # the test's variable
        shell=$!
        wait_until 30 test -S "$dir/forwarded"
        [[ $(fetch --unix-socket "$dir/forwarded" http://node/) == *"a page of the job"* ]]
        [[ $(fetch --proxy "socks5h://$socks" http://127.0.0.1:8888/) == \
            *"a page of the job"* ]]
        pkill -TERM -u "$DLRUN_TESTBED_USER" -f -- "-N -L $dir/forwarded"
        ended_ssh
        ssh_to 'setsid sleep 98765 >/dev/null 2>&1 </dev/null & trap "" TERM HUP'
        wait_until 20 nothing_is_left
        ! pgrep -u "$DLRUN_TESTBED_USER" -f 'sleep 98765'
        is_running
        # The job ends while a session is open.
        as_user ssh -F "$dir/config" "$host" 'trap "" TERM HUP; touch '"$dir"'/in; sleep 98765' \
            </dev/null 3>&- &
        shell=$!
        wait_until 30 test -e "$dir/in"
        dl cancel last
        ended_ssh
        wait_until 20 job_is_gone
        ! pgrep -u "$DLRUN_TESTBED_USER" -f 'sleep 98765|sshd -i|dlrun-agent sshd'
    done
}

@test "forward and ssh-config name what cannot be: no sshd, a pending run, a run here, wrong words" {
    on cgroup
    serving_job
    run dl forward last 70000
    [ "$status" -eq 2 ]
    [[ $output == *"'70000': expected PORT or PORT:LOCAL"* ]]
    run dl forward last 8888 --node n4
    [ "$status" -eq 2 ]
    [[ $output == *"the job runs on n[1-2]"* ]]
    run dl forward nosuch 8888
    [ "$status" -eq 6 ]
    # A node without sshd.
    "$testbed/on_node" n1 mount --bind /dev/null /usr/sbin/sshd
    run dl ssh-config last
    "$testbed/on_node" n1 umount /usr/sbin/sshd
    echo "$output"
    [ "$status" -eq 6 ]
    [[ $output == *"n1 has no sshd"*"openssh-server"* ]]
    as_user touch "$dir/later"
    dl submit serve.yaml --set resources.begin=now+1hour
    run dl forward last 8888
    [ "$status" -eq 2 ]
    [[ $output == *"is pending; dlrun can only enter a job that runs"* ]]
    dl cancel last
    run dl run serve.yaml --set 'launch.command=[true]' --set resources.nodes=1
    run dl ssh-config last
    [ "$status" -eq 2 ]
    [[ $output == *"runs on a machine without Slurm"* || $output == *"is completed"* ]]
}
