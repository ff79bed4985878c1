#!/usr/bin/env bats
# A run restarts in its allocation, from the queue, and on the remaining nodes.
# tests/unit/agent_retry_test.cc and tests/ranks/agent_retry_test.cc test the decision to restart,
# and that a job which always fails does not restart for ever.
# timeout: 300

load helpers
load process_trackers

setup() { use_testbed cgroup; }
# Tests with both process trackers start their jobs on both testbeds (process_trackers.bash) before
# they wait for the end of any run. The testbeds share the user's list of runs, so the tests refer
# to runs by their ids.
declare -gA id # bats reads the file in a function, so the array must be global.
# submit KEY: submits exp.yaml and keeps the id of the run as id[KEY]
submit() { id[$1]=$(dl submit exp.yaml --json 2>/dev/null | jq -r .run); }

# write_spec: writes standard input to exp.yaml
write_spec() { as_user tee "$dir/exp.yaml" >/dev/null; }
json() { dl status "${1:-last}" --json 2>/dev/null; }
run_dir() { json "${1:-last}" | jq -r .path; }
is_state() { [[ $(json "${2:-last}" | jq -r .state) == "$1" ]]; }
restart_causes() { json "${1:-last}" | jq -r '[.restarts[].cause] | join(" ")'; }
events() { jq -c "select(.event == \"$1\")" "$2/events.jsonl"; }

# rank_pids DIRECTORY RANK NAME: prints the ids of the processes with this name that belong to the
# rank of the run with this directory
rank_pids() {
    local pid
    for pid in $(pgrep -x "$3"); do
        tr '\0' '\n' <"/proc/$pid/environ" 2>/dev/null | grep -Fxq "DLRUN_RANK=$2" || continue
        tr '\0' '\n' <"/proc/$pid/environ" | grep -Fxq "DLRUN_RUN=$1" && echo "$pid"
    done
}
has_checkpoint() { compgen -G "$1/ckpt/*/manifest*" >/dev/null; }

@test "after kill -9 of a training rank, the final parameters equal those of an undisturbed run" {
    write_spec <<'YAML'
name: digits
resources: {nodes: 2, tasks_per_node: 2, cpus_per_task: 1, time: 10m}
train:
  data: {dataset: digits, train_samples: 4096}
  backend: gloo
  model: mlp
  batch: 32
  epochs: 8
  seed: 5
checkpoint: {every: 20 steps}
retry: {max: 3, on: [failure]}
YAML
    run dl submit exp.yaml --watch
    echo "$output" | tail -n 3
    [ "$status" -eq 0 ]
    undisturbed=$(json | jq -r .result.parameters)
    dl submit exp.yaml
    local dir_of_run
    dir_of_run=$(run_dir)
    wait_until 60 has_checkpoint "$dir_of_run"
    kill -9 "$(rank_pids "$dir_of_run" 3 dlrun-trainer)"
    run dl wait last
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(json | jq -r .result.parameters)" = "$undisturbed" ]
    [ "$(json | jq -c '[.state, .attempt, .restarts]')" \
        = '["completed",1,[{"attempt":0,"cause":"failure","left":2}]]' ]
    grep -q 'resumed from .* at step' "$dir_of_run/logs/attempt-1/rank-0000.log"
    [[ $(events rank_failed "$dir_of_run") == *'"rank":3,"host":"n2"'*'"signal":"SIGKILL"'* ]]
    [[ $(dl status last) == *"attempt   1, after failure"* ]]
    [[ $(dl status last) != *"restarts left"* ]]
    # Each attempt has its own log. Without --attempt, `logs` prints the log of the newest attempt.
    for attempt in 0 1; do
        [ "$(dl logs --rank 0 --attempt "$attempt" last)" \
            = "$(<"$dir_of_run/logs/attempt-$attempt/rank-0000.log")" ]
    done
    [ "$(dl logs --rank 0 last)" = "$(<"$dir_of_run/logs/attempt-1/rank-0000.log")" ]
    [[ -s $dir_of_run/logs/attempt-0/rank-0000.log &&
        $(<"$dir_of_run/logs/attempt-0/rank-0000.log") != *resumed* ]]
}

@test "only the array task near its time limit saves and is requeued, up to retry.max" {
    for tracker in cgroup linuxproc; do
        use_testbed "$tracker"
        [[ $tracker == cgroup ]] && exit_code=0 || exit_code=3
        sed "s/EXIT_CODE/$exit_code/" <<'YAML' | write_spec
name: swept
resources: {nodes: 1, tasks_per_node: 1, time: 3m}
environment: {vars: {POINT: ""}}
launch:
  preset: plain
  command:
    - bash
    - -c
    - |
      trap 'echo saved >>saved-$POINT; exit EXIT_CODE' USR1
      echo "$DLRUN_JOB" >>starts-$POINT
      [[ $DLRUN_ATTEMPT == 0 ]] || exit 0
      while [[ ! -e stop ]]; do sleep 0.1 & wait $!; done
checkpoint: {signal_before: 2m}
retry: {max: 1, on: [timeout]}
sweep: {parameters: {environment.vars.POINT: [a, b]}}
YAML
        submit "$tracker"
        wait_until 30 test -e "$dir/starts-a" -a -e "$dir/starts-b"
        as_user scancel --batch -s USR1 "$(json "${id[$tracker]}" | jq -r '.jobs[0]')_0"
        save_dir_of "$tracker"
    done
    for tracker in cgroup linuxproc; do
        return_to "$tracker"
        job=$(json "${id[$tracker]}" | jq -r '.jobs[0]')
        wait_until 60 is_state completed "${id[$tracker]}/0"
        [ "$(restart_causes "${id[$tracker]}/0")" = timeout ]
        [ "$(sort "$dir/starts-a" | uniq -c | xargs)" = "2 ${job}_0" ]
        [ "$(cat "$dir/saved-a")" = saved ]
        is_state running "${id[$tracker]}/1"
        [ "$(wc -l <"$dir/starts-b")" -eq 1 ]
        as_user touch "$dir/stop"
        wait_until 20 is_state completed "${id[$tracker]}"
    done
}

@test "without retry, a run whose program exits on the time limit's warning is completed" {
    # Lead takes a USR1 for Slurm's warning only near the time limit (run `warned`), not long before
    # (run `early`). Lead asks Slurm for the limit, even if the job sets SLURM_TIME_FORMAT.
    write_spec <<'YAML'
name: warned
resources: {nodes: 1, tasks_per_node: 1, time: 3m}
environment: {vars: {SLURM_TIME_FORMAT: relative}}
launch:
  command:
    - bash
    - -c
    - 'trap "exit 0" USR1; touch "up-$SLURM_JOB_NAME"; while :; do sleep 0.1 & wait $!; done'
checkpoint: {signal_before: 2m}
YAML
    dl submit exp.yaml
    dl submit exp.yaml --set name=early --set resources.time=10m
    for run in warned early; do
        wait_until 30 test -e "$dir/up-$run"
        as_user scancel --batch -s USR1 "$(json "$run" | jq -r .job)"
    done
    dl wait warned early
    [ "$(json warned | jq -r .detail)" \
        = "the rank ended with 0 after the warning of the time limit" ]
    [ "$(json early | jq -c '[.state, .detail]')" = '["completed","the rank ended with 0"]' ]
}

# submit_preemptible PARTITION TRACKER THEN: submits a run that can be preempted, on two nodes. On
# USR1, each rank saves and then executes the shell command THEN; if THEN is empty, the rank
# continues.
submit_preemptible() {
    write_spec <<YAML
name: $1
resources: {nodes: 2, tasks_per_node: 1, time: 5m, partition: $1, exclusive: true}
launch:
  preset: plain
  command: [bash, -c, 'trap "echo saved >>saved-$1; ${3:-:}" USR1; trap "" TERM; echo up >>up-$1;
    [[ \$DLRUN_ATTEMPT == 1 ]] || while :; do sleep 0.1 & wait \$!; done']
checkpoint: {signal_before: 60s}
retry: {max: 1, on: [preemption]}
YAML
    submit "$2-$1"
    two_are_up() { [[ $(wc -l <"$dir/up-$1") -eq 2 ]]; }
    wait_until 30 two_are_up "$1"
}

@test "a preempted run saves if there is time, is requeued, and its first attempt records no end" {
    for tracker in cgroup linuxproc; do
        use_testbed "$tracker"
        submit_preemptible preempt "$tracker" "$([[ $tracker == cgroup ]] || echo exit 0)"
        submit_preemptible preempt-now "$tracker" ''
        as_user sbatch -N4 --exclusive -t 1 -o /dev/null --wrap 'sleep 1'
        save_dir_of "$tracker"
    done
    for tracker in cgroup linuxproc; do
        return_to "$tracker"
        for partition in preempt preempt-now; do
            run=${id[$tracker-$partition]}
            wait_until 90 is_state completed "$run"
            [ "$(json "$run" | jq -c '[.attempt, .restarts]')" \
                = '[1,[{"attempt":0,"cause":"preemption","left":0}]]' ]
            [ -z "$(events ended "$(run_dir "$run")" | jq -c 'select(.attempt == 0)')" ]
        done
        [ "$(wc -l <"$dir/saved-preempt")" -eq 2 ]
        wait_until 60 no_jobs # A third attempt would start within seconds.
        for partition in preempt preempt-now; do
            [ "$(events claimed "$(run_dir "${id[$tracker-$partition]}")" | wc -l)" -eq 2 ]
        done
    done
}

@test "a preempted run that completes in its grace time does not run again" {
    as_user tee "$dir/done.json" <<<'{"step": 5, "steps": 5}' >/dev/null
    write_spec <<'YAML'
name: done
resources: {nodes: 1, tasks_per_node: 1, time: 5m, partition: preempt, exclusive: true}
launch:
  preset: plain
  command: [bash, -c, 'trap "cp done.json \$DLRUN_PROGRESS; exit 0" USR1; trap "" TERM;
    echo up >>ups; while :; do sleep 0.1 & wait $!; done']
checkpoint: {signal_before: 60s}
retry: {max: 2, on: [preemption]}
YAML
    dl submit exp.yaml
    wait_until 30 test -e "$dir/ups"
    as_user sbatch -N4 --exclusive -t 1 -o /dev/null --wrap 'sleep 1'
    wait_until 60 no_jobs
    [ "$(json | jq -c '[.state, .detail, .restarts]')" \
        = '["completed","the rank ended with 0",[]]' ]
    [ "$(<"$dir/ups")" = up ]
}

# submit_long_setup NAME TRACKER RESOURCES CAUSE: submits a run with a secret, with RESOURCES as
# further keys of `resources` and CAUSE in retry.on. The setup of the run lasts until Slurm ends the
# job. After the restart, the rank waits for the file `go` and then writes the secret to got-NAME.
submit_long_setup() {
    write_spec <<YAML
name: $1
resources: {nodes: 1, tasks_per_node: 1, time: 5m, $3}
environment:
  secrets: [{name: TOKEN, file: token}]
  setup: '[[ -n \$SLURM_RESTART_COUNT ]] || { touch in-setup-$1; sleep 100; }'
launch:
  command: [bash, -c,
    'until [[ -e go ]]; do sleep 0.1; done; echo "\$DLRUN_ATTEMPT \$TOKEN" >>got-$1']
retry: {max: 1, on: [$4]}
YAML
    submit "$2-$1"
}
ends_of() { events ended "$(run_dir "$1")" | jq -r '"\(.attempt) \(.state) \(.code)"' | xargs; }
has_ended_attempt() { [[ -n $(events attempt_end "$(run_dir "$1")") ]]; }

@test "a requeue, preemption, cancellation or timeout during the setup is not a failure" {
    # Slurm preempts the run `taken`, requeues `requeued`, cancels `dropped`, ends `late` at its
    # time limit, and requeues and then cancels `gone`.
    for tracker in cgroup linuxproc; do
        use_testbed "$tracker"
        as_user tee "$dir/token" <<<canary >/dev/null
        submit_long_setup taken "$tracker" 'partition: preempt-now, nodelist: n4, exclusive: true' \
            preemption
        for name in requeued dropped late gone; do
            submit_long_setup "$name" "$tracker" 'exclude: n4' node_failure
        done
        for name in taken requeued dropped late gone; do
            wait_until 30 test -e "$dir/in-setup-$name"
        done
        for name in requeued gone; do
            scontrol requeue "$(json "${id[$tracker-$name]}" | jq -r .job)"
        done
        as_user sbatch -w n4 --exclusive -t 1 -o /dev/null --wrap 'sleep 1'
        dl cancel "${id[$tracker-dropped]}"
        scontrol update JobId="$(json "${id[$tracker-late]}" | jq -r .job)" EndTime=now+1
        for name in taken requeued gone; do
            wait_until 20 has_ended_attempt "${id[$tracker-$name]}"
            [[ $(json "${id[$tracker-$name]}" | jq -r .state) == @(pending|running) ]]
        done
        [[ $(dl cancel "${id[$tracker-gone]}") == *": cancelled job "* ]]
        as_user touch "$dir/go"
        save_dir_of "$tracker"
    done
    for tracker in cgroup linuxproc; do
        return_to "$tracker"
        for name in taken requeued; do
            wait_until 60 is_state completed "${id[$tracker-$name]}"
            [ "$(ends_of "${id[$tracker-$name]}")" = "1 completed 0" ]
            [ "$(cat "$dir/got-$name")" = "1 canary" ]
        done
        [ "$(restart_causes "${id[$tracker-taken]}") $(restart_causes "${id[$tracker-requeued]}")" \
            = "preemption " ]
        wait_until 30 is_state cancelled "${id[$tracker-dropped]}"
        wait_until 30 is_state cancelled "${id[$tracker-gone]}"
        wait_until 60 is_state timeout "${id[$tracker-late]}"
        [ "$(ends_of "${id[$tracker-dropped]}"), $(ends_of "${id[$tracker-late]}")" \
            = "0 cancelled 143, 0 timeout 143" ]
        for name in taken requeued dropped late gone; do
            [ ! -e "$(run_dir "${id[$tracker-$name]}")/secrets" ]
        done
    done
}

# submit_lasting NAME RESOURCES RETRY COMMAND RANKS [ATTEMPTS]: submits a run, with RESOURCES as
# further keys of `resources` and RETRY as the last lines of its spec. Each rank executes the shell
# command COMMAND and then writes a line into the file NAME. The last of ATTEMPTS attempts (default:
# 2) then ends by itself; the others do not. Waits until the file NAME has a line of each of the
# RANKS ranks.
submit_lasting() {
    write_spec <<YAML
name: $1
resources: {cpus_per_task: 1, time: 5m, $2}
launch:
  preset: plain
  command: [bash, -c, 'trap "" TERM; $4;
    echo "\$DLRUN_ATTEMPT \$DLRUN_RANK of \$DLRUN_WORLD_SIZE on \$(uname -n)" >>$1;
    ((\$DLRUN_ATTEMPT + 1 == ${6:-2})) || while :; do sleep 0.2; done']
$3
YAML
    dl submit exp.yaml
    is_up() { [[ $(wc -l <"$dir/$1") -ge $2 ]]; }
    wait_until 30 is_up "$1" "$5"
}

@test "after a lost node or a hang, a run restarts, and none of its old ranks is alive" {
    # This run loses two nodes. When it loses the second node, the first is up again but no longer
    # belongs to the job, although SLURM_JOB_NODELIST still has it.
    submit_lasting shrink 'nodes: "2-4", tasks_per_node: 2' \
        'retry: {max: 2, on: [node_failure]}' : 8 3
    submit_lasting fixed 'nodes: 2' 'retry: {max: 1, on: [node_failure]}' : 2
    # This run loses its only node, with lead. The second attempt gets the lock only after the
    # first attempt's rank, which Slurm believes dead, has ended.
    submit_lasting alone 'nodes: 1, exclude: n1' 'retry: {max: 1, on: [node_failure]}' \
        'exec 9>lock; flock -w 30 9 || exit 1' 1
    # This run prints something until it is frozen.
    submit_lasting frozen 'nodes: 1, exclude: "n[1-2]"' \
        $'retry: {max: 1, on: [hang], exclude_bad_nodes: true}\nhealth: {hang_after: 3}' \
        'sleep() { echo alive; command sleep "$1"; }' 1
    first_lost=$(cut -d' ' -f6 "$dir/alone")
    # On the other testbed a node is cut off, and the run hangs before Slurm notices. The run must
    # restart once, not once for the hang and once more for the node.
    save_dir_of cgroup
    use_testbed linuxproc
    # shellcheck disable=SC2016 # not expanded by the test
    submit_lasting cut 'nodes: 2' \
        $'retry: {max: 3, on: [node_failure, hang]}\nhealth: {hang_after: 2}' \
        '[ $DLRUN_RANK != 0 ] || while [ ! -e cut-off ]; do echo alive; sleep 0.5; done & :' 2
    cut_node=$(grep '^0 1 ' "$dir/cut" | cut -d' ' -f6)
    as_user touch "$dir/cut-off"
    "$testbed/fault" unplug "$cut_node"
    save_dir_of linuxproc
    return_to cgroup
    for run in shrink fixed; do
        grep -q "on $first_lost$" "$dir/$run"
        [ "$(events claimed "$(run_dir "$run")" | jq -r .host)" = n1 ]
    done
    kill -STOP "$(rank_pids "$(run_dir frozen)" 0 bash)"
    "$testbed/fault" kill "$first_lost"
    for run in fixed alone frozen; do wait_until 60 is_state completed "$run"; done
    is_smaller() { [[ $(grep -c '^1 .* of 6 ' "$dir/shrink") -eq 6 ]]; }
    wait_until 60 is_smaller
    "$testbed/up"
    second_lost=$(sed -n 's/^1 .* on //p' "$dir/shrink" | grep -vx n1 | head -n 1)
    "$testbed/fault" kill "$second_lost"
    wait_until 60 is_state completed shrink
    "$testbed/up"
    [ "$(restart_causes shrink)" = "node_failure node_failure" ]
    [ "$(events restarting "$(run_dir shrink)" | jq -r .by | xargs)" = "lead lead" ]
    [ "$(grep -c '^2 .* of 4 ' "$dir/shrink")" -eq 4 ]
    run grep "^2 .* on \($first_lost\|$second_lost\)" "$dir/shrink"
    [ "$status" -ne 0 ]
    for run in fixed alone; do [ "$(restart_causes "$run")" = node_failure ]; done
    [ "$(grep -c '^1 .* of 2 ' "$dir/fixed")" -eq 2 ]
    for run in shrink fixed alone; do
        run grep "^1 .* on $first_lost" "$dir/$run"
        [ "$status" -ne 0 ]
    done
    [ "$(restart_causes frozen)" = hang ]
    [[ $(events restarting "$(run_dir frozen)") \
        == *'"exclude":["'"$(sed -n 's/^0 .* on //p' "$dir/frozen")"'"]'* ]]
    cat "$dir/frozen"
    [ "$(cut -d' ' -f1 "$dir/frozen" | xargs)" = "0 1" ]
    # The second attempt ran on another node than the first.
    [ "$(cut -d' ' -f6 "$dir/frozen" | sort -u | wc -l)" -eq 2 ]
    return_to linuxproc
    wait_until 90 is_state completed cut
    "$testbed/fault" plug "$cut_node"
    [ "$(restart_causes cut)" = node_failure ]
    [ "$(events attempt_end "$(run_dir cut)" | head -n 1 |
        jq -r '[.reason, .first_failed.host] | join(" ")')" = "hang $cut_node" ]
    [ "$(grep -c '^1 .* of 2 ' "$dir/cut")" -eq 2 ]
    run grep "^1 .* on $cut_node" "$dir/cut"
    [ "$status" -ne 0 ]
}
