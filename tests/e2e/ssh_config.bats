#!/usr/bin/env bats
# `dlrun ssh-config`: ssh, scp and editors reach the node of a running job.

load helpers
load forward

setup() { dir=$(fresh_dir); }

@test "a session has the job's environment, ssh returns its exit code, and scp copies 50 MB" {
    submit_servers
    write_ssh_block last --node n2
    # The fields are: node, job, tasks of the step, and a variable of the spec.
    run ssh_to 'hostname; echo "$SLURM_JOB_ID $SLURM_STEP_NUM_TASKS $GREETING"'
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"n2"*"$job 1 it's; \$(id) \"here\""* ]]
    # sshd gives a terminal to the group tty (gid 5). An ordinary user's sshd can do this only if
    # devpts is mounted with gid=5.
    if grep -q 'devpts.*gid=5' /proc/mounts; then [[ $(ssh_to -tt tty) == /dev/pts/* ]]; fi
    run ssh_to exit 7
    [ "$status" -eq 7 ]
    as_user bash -c 'head -c 50000000 /dev/urandom >"$1/fifty"' - "$dir"
    since=${EPOCHREALTIME/./}
    as_user scp -q -F "$dir/config" "$dir/fifty" "$host:$dir/there"
    as_user scp -q -F "$dir/config" "$host:$dir/there" "$dir/again"
    echo "# twice 50 MB in $(((${EPOCHREALTIME/./} - since) / 1000)) ms" >&3
    cmp "$dir/fifty" "$dir/there"
    cmp "$dir/fifty" "$dir/again"
    # Only the user can read the keys and known_hosts.
    run_dir=$(dl status last --json | jq -r .path)
    [[ $(stat -c %a "$run_dir/ssh" "$run_dir/ssh/user_key" | tr '\n' ' ') == "700 600 " ]]
    wait_until 20 no_connection_is_left
}

@test "ssh without a command, with -L and -D as an editor uses it, reaches the job's server" {
    submit_servers
    write_ssh_block last --node n2
    socks=127.0.0.1:$(python3 -c 'import socket
s = socket.create_server(("127.0.0.1", 0))
print(s.getsockname()[1])')
    sockets=$(as_user mktemp -d /tmp/dlrun-XXXXXX) # $dir is too long for the path of a socket
    as_user ssh -F "$dir/config" -N -L "$sockets/forwarded:127.0.0.1:8888" -D "$socks" "$host" \
        </dev/null 3>&- &
    editor=$!
    wait_until 30 test -S "$sockets/forwarded"
    [[ $(fetch --unix-socket "$sockets/forwarded" http://node/) == *"a page of the job"* ]]
    # fetch() calls curl with --noproxy '*', which would also ignore this proxy.
    page=$(curl -sS --noproxy '' --max-time 60 --proxy "socks5h://$socks" http://127.0.0.1:8888/)
    [[ $page == *"a page of the job"* ]]
    # Several sessions at the same time, as an editor opens them.
    for i in 1 2 3; do
        ssh_to "echo $i" >"$BATS_TEST_TMPDIR/session-$i" &
        sessions+=($!)
    done
    for session in "${sessions[@]}"; do wait "$session"; done
    [[ $(cat "$BATS_TEST_TMPDIR"/session-*) == $'1\n2\n3' ]]
    pkill -TERM -u "$DLRUN_TESTBED_USER" -f -- "-N -L $sockets/forwarded"
    wait "$editor" || true
    rm -rf "$sockets"
    wait_until 20 no_connection_is_left
    is_running
}

@test "a node without sshd, a wrong node and --connect on a terminal are refused with the reason" {
    submit_servers
    "$testbed/on_node" n1 mount --bind /dev/null /usr/sbin/sshd
    run dl ssh-config last
    "$testbed/on_node" n1 umount /usr/sbin/sshd
    echo "$output"
    [ "$status" -eq 6 ]
    [[ $output == *"n1 has no sshd"*"openssh-server"* ]]
    run dl ssh-config last --node n4
    [ "$status" -eq 2 ]
    [[ $output == *"the job runs on n[1-2]"* ]]
    run dl ssh-config nosuch
    [ "$status" -eq 6 ]
    run as_user script -qec "cd $dir && dlrun ssh-config last --connect" /dev/null </dev/null
    echo "$output"
    [ "$status" -eq 2 ]
    [[ $output == *"ssh calls this command as its ProxyCommand"* ]]
}
