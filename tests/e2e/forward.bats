#!/usr/bin/env bats
# `dlrun forward`: carries connections to a port of a running job's node.

load helpers
load forward

setup() { dir=$(fresh_dir); }

@test "a page, 200 MB and 20 parallel downloads arrive while another client reads nothing" {
    submit_servers
    head -c 200000000 /dev/urandom >"$dir/www/large"
    start_forward last 8888:0
    [[ $(fetch "$address/") == "<h1>a page of the job</h1>" ]]
    # This client asks for a large page and reads nothing of it.
    exec 4<>"/dev/tcp/127.0.0.1/${address##*:}"
    printf 'GET /large HTTP/1.0\r\n\r\n' >&4
    since=${EPOCHREALTIME/./}
    fetch "$address/large" -o "$BATS_TEST_TMPDIR/large"
    echo "# 200 MB in $(((${EPOCHREALTIME/./} - since) / 1000)) ms" >&3
    cmp "$BATS_TEST_TMPDIR/large" "$dir/www/large"
    for i in {1..20}; do
        fetch "$address/index.html" -o "$BATS_TEST_TMPDIR/page-$i" 4>&- &
        clients+=($!)
    done
    for client in "${clients[@]}"; do wait "$client"; done
    for i in {1..20}; do cmp "$BATS_TEST_TMPDIR/page-$i" "$dir/www/index.html"; done
    exec 4>&-
    # The job has two steps: that of the ranks, and one that carries all connections.
    [[ $(squeue -h -s -j "$job" -o %i | grep -cv -e batch -e extern) == 2 ]]
    # The first forwarding already uses this port of this machine.
    run dl forward last 8888:"${address##*:}"
    [ "$status" -eq 2 ]
    [[ $output == *"this port of this machine is in use"*"is free: give 8888:"* ]]
    kill -INT "$forward_pid"
    wait_for_forward
    [ "$code" -eq 130 ]
    wait_until 20 no_connection_is_left
    is_running
}

@test "the socket is private, clients wait for the program, and forward ends with the job" {
    submit_servers later
    # shellcheck disable=SC2034 # start_forward uses it
    forward_env=(SSH_CONNECTION=x)
    start_forward last 8888 --node n2
    [[ $(<"$dir/forward.out") == *" is port 8888 of n2" ]]
    socket=$address
    [[ $(stat -c '%a %U' "${socket%/*}") == "700 $DLRUN_TESTBED_USER" ]]
    grep -q "ssh -N -L 8888:$socket " "$dir/forward.err"
    fetch --unix-socket "$socket" http://node/ -o "$BATS_TEST_TMPDIR/page" &
    client=$!
    wait_until 20 grep -q 'nothing listens on port 8888 of n2 yet' "$dir/forward.err"
    as_user touch "$dir/serve"
    wait "$client"
    cmp "$BATS_TEST_TMPDIR/page" "$dir/www/index.html"
    grep -q 'port 8888 of n2 answers now' "$dir/forward.err"
    # The end of the job ends the forwarding.
    dl cancel last
    wait_for_forward
    [ "$code" -eq 0 ]
    grep -q 'is cancelled; the forwarding has ended' "$dir/forward.err"
    [ ! -e "${socket%/*}" ]
    wait_until 20 job_is_gone
    run dl forward last 8888
    [ "$status" -eq 2 ]
    [[ $output == *"is cancelled; this command needs a running job"* ]]
}

@test "wrong ports, wrong nodes and runs without a running Slurm job are refused with the reason" {
    submit_servers
    for port in 0 70000 80:x -1 '' "8888 "; do
        run dl forward last -- "$port"
        [ "$status" -eq 2 ]
    done
    run dl forward last 70000
    [[ $output == *"'70000': expected PORT or PORT:LOCAL"* ]]
    run dl forward last 8888 8888
    [ "$status" -eq 2 ]
    [[ $output == *"port 8888 is given twice"* ]]
    run dl forward last 8888:9000 --socket
    [ "$status" -eq 2 ]
    [[ $output == *"--socket: 8888:9000"* ]]
    run dl forward last 8888 --node n4
    [ "$status" -eq 2 ]
    [[ $output == *"the job runs on n[1-2]"* ]]
    run dl forward nosuch 8888
    [ "$status" -eq 6 ]
    dl submit serve.yaml --set resources.begin=now+1hour
    run dl forward last 8888
    [ "$status" -eq 2 ]
    [[ $output == *"is pending; this command needs a running job"* ]]
    run dl ssh-config last
    [ "$status" -eq 2 ]
    [[ $output == *"is pending; this command needs a running job"* ]]
    dl cancel last
    dl run serve.yaml --set 'launch.command=["true"]' --set resources.nodes=1
    for words in "forward last 8888" "ssh-config last"; do
        # shellcheck disable=SC2086 # splits the words
        run dl $words
        [ "$status" -eq 2 ]
        [[ $output == *"is completed; this command needs a running job"* ]]
    done
    dl run serve.yaml --set "launch.command=[sleep, 600]" --set resources.nodes=1 3>&- &
    wait_until 30 is_running
    for words in "forward last 8888" "ssh-config last"; do
        # shellcheck disable=SC2086 # splits the words
        run dl $words
        [ "$status" -eq 2 ]
        [[ $output == *"runs without Slurm on"* ]]
    done
    dl cancel last
    wait
}
