#!/usr/bin/env bats
# launch.agent: false. The job script alone gives each task the environment that its preset
# promises, and the nodes need no file of dlrun.
# timeout: 240

load helpers

setup() {
    dir=$(fresh_dir)
    install -m 755 -o "$DLRUN_TESTBED_USER" "$BATS_TEST_DIRNAME/verify_preset.py" \
        "$dir/verify_preset.py"
    as_user mkdir "$dir/bin"
    # This program replaces torchrun and verifies the options that the preset passes.
    as_user tee "$dir/bin/torchrun" >/dev/null <<SH
#!/bin/sh
exec python3 $dir/verify_preset.py rank $dir/torchrun torchrun "\$@"
SH
    chmod 755 "$dir/bin/torchrun"
}

# write_spec PRESET RESOURCES: writes PRESET.yaml, whose program reports into the folder PRESET
write_spec() {
    as_user mkdir "$dir/$1"
    as_user tee "$dir/$1.yaml" >/dev/null <<YAML
name: $1
resources: {$2, time: 2m}
environment: {setup: "PATH=$dir/bin:\$PATH"}
launch:
  agent: false
  preset: $1
  command: [python3, $dir/verify_preset.py, rank, $dir/$1, $1]
YAML
}
verify() { as_user python3 "$dir/verify_preset.py" all "$dir/$1" "$@"; }

@test "torch, torchrun, mpi and plain jobs share 4 nodes at the same time, without dlrun's agents" {
    for preset in torch mpi plain; do write_spec "$preset" 'nodes: 4, tasks_per_node: 2'; done
    write_spec torchrun 'nodes: 4'
    for preset in torch torchrun mpi plain; do dl submit "$preset.yaml"; done
    for preset in torch torchrun mpi plain; do
        dl wait "$preset" || { dl logs "$preset" && false; }
        size=8
        [[ $preset != torchrun ]] || size=4
        run verify "$preset" "$size"
        echo "$preset: $output"
        [ "$status" -eq 0 ]
    done
    [ -z "$(find "$dir/runs" -maxdepth 1 -name ".agents*")" ]
    run grep -l dlrun-agent "$dir"/runs/*/job.sh
    [ "$status" -ne 0 ]
}

@test "a rendered script that is submitted by hand gives 5 tasks on 4 nodes their ranks" {
    write_spec torch 'nodes: 4, ntasks: 5'
    dl render torch.yaml -o "$dir/job.sh"
    as_user bash -c 'cd "$1" && mkdir -p runs && exec sbatch --wait job.sh' - "$dir"
    run verify torch 5
    echo "$output"
    [ "$status" -eq 0 ]
    run dl diff job.sh
    [[ $output == *"nothing was edited"* ]]
}

@test "a failed program fails the job, and srun ends the other programs" {
    write_spec plain 'nodes: 2'
    run dl submit plain.yaml \
        --set 'launch.command=[sh, -c, "[ $DLRUN_RANK != 1 ] || exit 7; exec sleep 100"]' --watch
    [ "$status" -eq 5 ]
    [[ $output == *"task 1: Exited with exit code 7"* ]]
    [ "$(dl status plain --json | jq -r .state)" = failed ]
}

@test "checkpoint.signal_before: each node's rank gets the signal, and the job script survives" {
    write_spec plain 'nodes: 2'
    # shellcheck disable=SC2016 # not expanded by the test
    local program='trap \"echo saved $SLURM_PROCID; exit 0\" USR1; touch up-$SLURM_PROCID;'
    program+=' while :; do sleep 0.1 & wait; done'
    dl submit plain.yaml --set checkpoint.signal_before=30s \
        --set "launch.command=[bash, -c, \"$program\"]"
    wait_until 30 test -e "$dir/up-0" -a -e "$dir/up-1"
    # Slurm sends this signal for --signal=B:USR1.
    as_user scancel --batch -s USR1 "$(dl status plain --json | jq -r .job)"
    dl wait plain
    [ "$(dl logs plain | grep -c '^saved [01]$')" -eq 2 ]
}

@test "literal text in a user's preset reaches the program byte for byte" {
    as_user mkdir -p "$dir/config/presets"
    as_user tee "$dir/config/presets/mine.yaml" >/dev/null <<'YAML'
words: [env, 'B=it''s "$HOME" `id` \ {{x}} {rank}']
env: {A: 'it''s "$HOME" `id` \ {{x}} {rank}'}
YAML
    write_spec mine 'nodes: 1'
    as_user bash -c 'cd "$1" &&
        DLRUN_CONFIG=$1/config exec dlrun submit mine.yaml --watch \
            --set "launch.command=[printenv, A, B]"' \
        - "$dir"
    run dl logs mine
    [[ $output == *'it'\''s "$HOME" `id` \ {x} 0
it'\''s "$HOME" `id` \ {x} 0'* ]]
}

@test "the port that the script chooses for rank 0 is not in use, and no other job has chosen it" {
    write_spec torch 'nodes: 1'
    dl render torch.yaml | sed -n '/^# A port for/,/^export DLRUN_MASTER_PORT/p' \
        >"$BATS_TEST_TMPDIR/choose"
    # The fixed seed gives the same choice each time, so only occupied ports change it. No other
    # test on this machine uses the resulting ports.
    choose_port() {
        bash -ec 'RANDOM=4711; . "$1"; flock --unlock "$dlrun_lock"; echo "$dlrun_port"' \
            - "$BATS_TEST_TMPDIR/choose"
    }
    first=$(choose_port)
    [ "$(choose_port)" = "$first" ]
    locks=/tmp/dlrun-ports-$UID
    (umask 077 && mkdir -p "$locks")
    exec {lock}>>"$locks/$first"
    flock --nonblock "$lock"
    second=$(choose_port)
    [ "$second" != "$first" ]
    exec {lock}>&-
    python3 -c 'import socket, sys, time
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("up", flush=True)
time.sleep(60)' \
        "$first" >"$BATS_TEST_TMPDIR/up" 3>&- &
    server=$!
    wait_until 20 grep up "$BATS_TEST_TMPDIR/up"
    third=$(choose_port)
    kill "$server"
    rm -f "$locks/$first" "$locks/$second"
    [ "$third" = "$second" ]
}
