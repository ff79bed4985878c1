#!/usr/bin/env bats
# A sweep on a real cluster: one array, a run for each point, and a resubmitted point. The testbed's
# MaxArraySize is 8.
# timeout: 300

load helpers

setup() {
    dir=$(fresh_dir)
    cat >"$dir/sweep.yaml" <<'YAML'
name: swept
resources: {nodes: 1, tasks_per_node: 1, time: 5m}
environment: {vars: {LR: "", BATCH: ""}}
launch:
  preset: plain
  command:
    - bash
    - -c
    - |
      echo "lr $LR batch $BATCH run $DLRUN_RUN job $DLRUN_JOB"
      touch "now-$LR-$BATCH"; ls now-* | wc -l >>counts; sleep 0.3; rm "now-$LR-$BATCH"
      echo "$LR $BATCH" >>ran
      [[ "$LR $BATCH" != "0.1 64" || -e fixed ]]
sweep:
  parameters:
    environment.vars.LR: [0.1, 0.01]
    environment.vars.BATCH: [32, 64, 128]
  max_parallel: 2
YAML
    chown "$DLRUN_TESTBED_USER:" "$dir/sweep.yaml"
}

teardown() {
    scontrol update partitionname=batch state=up
    end_test
}

json() { dl "$@" --json 2>/dev/null; }
state() { json status "$1" | jq -r .state; }
is_state() { [[ $(state "$1") == "$2" ]]; }
# points FILTER [SWEEP]: prints what the jq filter gives for each point, in the order of the points
points() { json sweep "${2:-last}" --sort point | jq -r ".[] | $1"; }
point_states_are() { [[ $(points .state | sort | uniq -c | xargs) == "$1" ]]; }

@test "six points are one array with a throttle, and a failed point is resubmitted alone" {
    run dl submit sweep.yaml --json
    [ "$status" -eq 0 ]
    job=$(jq -r '.jobs | join(" ")' <<<"$output")
    [[ $job =~ ^[0-9]+$ ]] # One sbatch submits all points.
    [[ $(scontrol show job "$job") == *"ArrayTaskThrottle=2"* ]]
    wait_until 90 point_states_are "5 completed 1 failed"
    is_state last failed
    run dl top last # This prints one line for each point.
    echo "$output"
    [[ $output == *"6 of 6 points are over"* &&
        $(grep -cE "^ [0-5]  .* (completed|failed) " <<<"$output") == 6 ]]
    # Each point ran once, with its own values, in its own run. At most two ran at the same time.
    [[ $(sort "$dir/ran" | xargs) == "0.01 128 0.01 32 0.01 64 0.1 128 0.1 32 0.1 64" ]]
    (($(sort -n "$dir/counts" | tail -1) <= 2))
    sweep_path=$(json status last | jq -r .path)
    for n in 0 1 2 3 4 5; do
        path=$(json status "last/$n" | jq -r .path)
        [[ $path == "$sweep_path/array-0/$n" ]]
        [[ $(json status "last/$n" | jq -r .job) == "${job}_$n" ]]
        [[ $(json status "${job}_$n" | jq -r .run) == "$(basename "$sweep_path")/$n" ]]
        grep -q "run $path job ${job}_$n" "$path/logs/attempt-0/rank-0000.log"
        [[ $(dl logs "last/$n") == *"lr "* ]]
    done
    grep -q 'LR: "0.01"  # sweep.yaml' "$sweep_path/array-0/3/resolved.yaml"
    ! grep -q sweep: "$sweep_path/array-0/3/resolved.yaml" || false
    [[ $(dl logs last) == *"==> swept-"*"/5 <=="* ]]
    run dl ls
    [[ $output == *"6 points: 5 completed, 1 failed"* ]]
    run dl sweep last --sort point
    [[ $output == *"POINT"*"environment.vars.LR"*"STATE"* ]]
    [[ $output =~ 1\ +0.1\ +64\ +failed ]]
    run dl sweep last --sort nosuch
    [ "$status" -eq 2 ]
    run dl render sweep.yaml --point -1
    [ "$status" -eq 2 ]
    run dl wait last
    [ "$status" -eq 5 ]

    # The failed point is resubmitted as a run of its own, which then replaces it.
    as_user touch "$dir/fixed"
    run dl resubmit last
    [ "$status" -eq 2 ]
    run dl resubmit last/0 --json
    [ "$status" -eq 0 ]
    run dl resubmit swept/1 --json --watch
    [ "$status" -eq 0 ]
    [[ $(sort "$dir/ran" | uniq -c | awk '$1 == 2 {print $2, $3}' | xargs) == *"0.1 64"* ]]
    sweep=$(basename "$sweep_path")
    wait_until 60 is_state "$sweep" completed
    [[ $(points .state "$sweep" | sort -u) == completed ]]
    [[ $(json status "$sweep/1" | jq -r .job) != *_* ]]
}

@test "a sweep above MaxArraySize is several arrays with one throttle, and one cancel ends all" {
    dl submit sweep.yaml \
        --set 'sweep.parameters={environment.vars.LR: [a, b, c, d, e, f, g, h, i, j]}' \
        --set sweep.max_parallel=1 \
        --set 'launch.command=[bash, -c, "touch began; until [[ -e go ]]; do sleep 0.1; done"]'
    run json status last
    [[ $(jq -r .point_counts.all <<<"$output") == 10 ]]
    parent=$(jq -r .path <<<"$output")
    first=$(jq -r .job "$parent/array-0/submission.json")
    second=$(jq -r .job "$parent/array-1/submission.json")
    jobs="$(printf '%s ' "$first"_{0..7})${second}_0 ${second}_1"
    [[ $(points .job | xargs) == "$jobs" ]]
    [[ $(scontrol show job --oneliner "$second") == *"Dependency=afterany:$first"* ]]
    wait_until 60 test -e "$dir/began"
    [[ $(dl attach last/0 -- bash -c 'echo "$(hostname) $(pwd)"' </dev/null) == "n"[1-4]" $dir" ]]
    [[ -z $(find "$parent" -name '.interactive-*') ]] # The session's folder is beside $parent.
    run dl attach last -- hostname </dev/null
    [ "$status" -eq 2 ]
    [[ $output == *"is a sweep"* ]]
    [[ $(json sweep last | jq -r '.[] | select(.state == "running") | .point') == 0 ]]
    run dl cancel nosuch last/9 another
    [ "$status" -eq 6 ] # The existing point is cancelled nevertheless.
    [[ $output == *"no run 'nosuch'"*"last/9"* || $output == *"/9: cancelled job"* ]]
    [[ $output == *"no run 'another'"* ]]
    wait_until 60 is_state last/9 cancelled
    is_state last running
    dl cancel last
    wait_until 60 is_state last cancelled
    point_states_are "10 cancelled"
}

@test "a requeued task claims its own point again" {
    # shellcheck disable=SC2016 # not expanded by the test
    local program='echo attempt $DLRUN_ATTEMPT; touch began-$LR;'
    program+=' until [[ -e go ]]; do sleep 0.1; done'
    dl submit sweep.yaml --set 'sweep.parameters={environment.vars.LR: [a, b]}' \
        --set 'resources.partition=preempt-now' \
        --set "launch.command=[bash, -c, \"$program\"]"
    job=$(json status last | jq -r '.jobs[0]')
    wait_until 60 test -e "$dir/began-a" -a -e "$dir/began-b"
    path=$(json status last/1 | jq -r .path)
    scontrol update "jobid=${job}_1" requeue=1
    scontrol requeue "${job}_1"
    wait_until 60 grep -qx 1 "$path/attempt"
    as_user touch "$dir/go"
    wait_until 60 is_state last completed
    [[ $(cat "$path/../0/attempt") == 0 ]]
    grep -q "attempt 1" "$path/logs/attempt-1/rank-0000.log"
}

@test "check counts the arrays of points with different resources, and --point N selects a point" {
    run json check sweep.yaml \
        --set 'sweep.parameters={resources.nodes: [1, 2], resources.time: [1h]}' \
        --set resources.gpus_per_node=1 --set sweep.max_parallel=null
    [ "$status" -eq 0 ]
    [[ $(jq -c '[.points, .arrays, .gpu_hours == 3]' <<<"$output") == "[2,2,true]" ]]
    run dl check sweep.yaml
    [[ $output == *"6 points, 2 at a time"* ]]
    run dl render sweep.yaml
    [[ $output == *"#SBATCH --array=0-5%2"* ]]
    dl render sweep.yaml -o array.sh
    run dl submit array.sh
    [ "$status" -eq 2 ]
    [[ $output == *"is the array of a sweep"* ]]
    run dl check sweep.yaml --set 'sweep.parameters={resources.nodes: [1, 99]}' \
        --set sweep.max_parallel=null
    [ "$status" -eq 3 ]
    run dl render sweep.yaml --point 4
    [[ $output == *"point 4 of 6: environment.vars.LR=0.01 environment.vars.BATCH=64"* ]]
    [[ $output != *--array* ]]
    sed 's/environment.vars.LR: /environment.var.LR: /' "$dir/sweep.yaml" >"$dir/bad.yaml"
    chown "$DLRUN_TESTBED_USER:" "$dir/bad.yaml"
    run dl submit bad.yaml
    [ "$status" -eq 2 ]
    [[ $output \
        == *"bad.yaml:16:5: error: sweep.parameters: there is no key 'environment.var.LR'"* ]]
    run dl run sweep.yaml --set 'sweep.parameters={environment.vars.LR: [x, y]}'
    [ "$status" -eq 2 ]
    [[ $output == *"--point N runs one of them here"* ]]
    dl run sweep.yaml --set 'sweep.parameters={environment.vars.LR: [x, y]}' --point 1
    [[ $(dl logs last) == *"lr y"* ]]
}

@test "every point gets the secret, and no file of the sweep has it after the end" {
    cd "$dir"
    as_user bash -c 'cd "$1" && TOKEN=s3cret exec dlrun submit sweep.yaml \
        --set "environment.secrets=[TOKEN]" \
        --set "sweep.parameters={environment.vars.LR: [a, b]}" \
        --set "launch.command=[bash, -c, \"[[ \$TOKEN == s3*t ]] && touch has-\$LR\"]"' - "$dir"
    wait_until 60 is_state last completed
    [[ -e $dir/has-a && -e $dir/has-b ]]
    parent=$(json status last | jq -r .path)
    ! grep -rl s3cret "$parent" || false
}

# Writes an sbatch that submits the job. If the file `kill` exists, this sbatch then kills dlrun,
# its parent process. If the file `has-lost` does not exist, this sbatch creates it and loses the
# reply, so that only the first reply is lost.
write_faulty_sbatch() {
    as_user mkdir "$dir/bin"
    as_user tee "$dir/bin/sbatch" >/dev/null <<SH
#!/bin/bash
[[ \$1 != --test-only ]] || exec $slurm_bin/sbatch "\$@"
answer=\$($slurm_bin/sbatch "\$@") || exit
echo "\$answer" >>$dir/jobs
[[ ! -e $dir/kill ]] || kill -KILL \$PPID
error='Batch job submission failed: Socket timed out on send/recv operation'
[[ -e $dir/has-lost ]] || { touch $dir/has-lost; echo "sbatch: error: \$error" >&2; exit 1; }
echo "\$answer"
SH
    as_user chmod 755 "$dir/bin/sbatch"
}
submit_ten_points() {
    as_user env -C "$dir" PATH="$dir/bin:$(as_user printenv PATH)" dlrun submit sweep.yaml \
        --set sweep.max_parallel=null \
        --set 'sweep.parameters={environment.vars.LR: [a, b, c, d, e, f, g, h, i, j]}'
}

@test "an array whose reply is lost is found by its comment, so that each point runs once" {
    write_faulty_sbatch
    submit_ten_points
    (($(wc -l <"$dir/jobs") == 2))
    [[ $(points .job | sed 's/_.*//' | uniq | xargs) == "$(xargs <"$dir/jobs")" ]]
    wait_until 60 point_states_are "10 completed"
    (($(wc -l <"$dir/ran") == 10))
}

@test "if dlrun is killed between two arrays, the second is not_submitted until it is resubmitted" {
    write_faulty_sbatch
    as_user touch "$dir/has-lost" "$dir/kill"
    run submit_ten_points
    [ "$status" -ne 0 ]
    (($(wc -l <"$dir/jobs") == 1))
    wait_until 60 point_states_are "8 completed 2 not_submitted"
    (($(wc -l <"$dir/ran") == 8))
    [[ $(json status last/3 | jq -r .job) == "$(<"$dir/jobs")_3" ]]
    parent=$(json status last | jq -r .run)
    [[ $(json status "$parent/9" | jq -r .detail) == "it was not submitted"*"dlrun resubmit"* ]]
    [[ $(dl status "$parent") == \
        *"\`dlrun resubmit $parent\` submits the points that were not submitted"* ]]
    rm "$dir/kill"
    # While one command submits a point, alone or with the missing points, other commands that
    # would submit this point are refused.
    path=$(json status "$parent" | jq -r .path)
    for row in '.,8,/8: another dlrun is submitting the missing points of the sweep' \
        "array-1/0,8,/8: another dlrun is submitting it again" \
        "array-1/0,,/8: another dlrun is submitting it; try"; do
        IFS=, read -r folder point words <<<"$row"
        run as_user flock "$path/$folder/submission.lock" dlrun resubmit "$parent${point:+/$point}"
        [ "$status" -eq 3 ]
        [[ $output == *"$words"* ]]
    done
    (($(wc -l <"$dir/jobs") == 1))
    dl resubmit "$parent/8" --watch
    # One point of the second array is missing. Resubmitting the sweep submits this point; a second
    # resubmission submits nothing.
    run json resubmit "$parent" --watch
    [ "$status" -eq 0 ]
    jq -s '.[0]' <<<"$output" | has_fields_of submit#sweep
    [[ $(jq -s -c '[.[0].points, (.[0].jobs | length), .[1].state]' <<<"$output") \
        == '[1,1,"completed"]' ]]
    run dl resubmit "$parent"
    [ "$status" -eq 2 ]
    [[ $output == *"all its points were submitted"* ]]
    is_state "$parent" completed
    (($(wc -l <"$dir/ran") == 10))
}

@test "no array is queued if Slurm would refuse one, and resubmit submits what sbatch refused" {
    runs=$(json ls --all | jq length)
    run dl submit sweep.yaml --set 'sweep.parameters={resources.partition: [batch, nosuch]}'
    [ "$status" -eq 3 ]
    [[ $output == *"nothing was submitted: point 1: resources.partition=nosuch"* ]]
    (($(json ls --all | jq length) == runs))
    [[ -z $(squeue -h -u "$DLRUN_TESTBED_USER") ]]
    # dlrun does not refuse more nodes than are up, because nodes may come back. sbatch decides, and
    # the array that it may refuse is submitted first.
    run dl submit sweep.yaml --set 'sweep.parameters={resources.nodes: [1, 99]}'
    [[ $output == *"point 1: resources.nodes=99: Slurm may queue it and not start it: "* ]]
    path=$(json status last | jq -r .path)
    (($(jq -r .job "$path/array-1/submission.json") < $(jq \
        -r .job "$path/array-0/submission.json")))
    dl cancel last

    # The second call of sbatch fails. The points of its array are resubmitted later.
    as_user mkdir "$dir/bin"
    as_user tee "$dir/bin/sbatch" >/dev/null <<SH
#!/bin/bash
if [[ \$1 != --test-only ]] && echo x >>$dir/calls && ((\$(wc -l <$dir/calls) == 2)); then
    echo "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy" >&2
    exit 1
fi
exec $slurm_bin/sbatch "\$@"
SH
    as_user chmod 755 "$dir/bin/sbatch"
    run submit_ten_points
    [ "$status" -eq 3 ]
    [[ $output == *"1 of 2 arrays are queued: \`dlrun resubmit "* ]]
    dl resubmit last --watch
    (($(wc -l <"$dir/ran") == 10))
    point_states_are "10 completed"
}

@test "a resubmitted point keeps its result until it has a new one, and values keep their types" {
    as_user tee "$dir/train.yaml" >/dev/null <<'YAML'
name: trained
resources: {nodes: 1, tasks_per_node: 1, time: 5m}
launch: {preset: trainer}
train: {data: {dataset: digits}, model: mlp, epochs: 1, hidden: [16]}
sweep: {parameters: {train.lr: [0.0001, 0.01]}}
YAML
    dl submit train.yaml --watch
    [[ $(points '.values["train.lr"]' | xargs) == "0.0001 0.01" ]]
    # Best first: the largest accuracy, the smallest loss. Options reverse the order and limit
    # the number.
    order() { json sweep last "$@" | jq -c 'map(.point)'; }
    [[ $(order) == "[1,0]" && $(order --ascending) == "[0,1]" &&
        $(order --sort test_loss) == "[1,0]" ]]
    [[ $(order --sort test_loss --descending) == "[0,1]" && $(order -n 1) == "[1]" &&
        $(order --sort train.lr --ascending) == "[0,1]" ]]
    before=$(json sweep last --sort point | jq -c '.[0] | [.result.test_accuracy, .result_of]')
    [[ $before != *null* ]]
    sweep=$(json status last | jq -r .run)
    scontrol update partitionname=batch state=down # Later jobs wait.
    dl resubmit "$sweep/0"
    [[ $(points .state "$sweep" | xargs) == "pending completed" ]]
    [[ $(json sweep "$sweep" --sort point | jq -c '.[0] | [.result.test_accuracy, .result_of]') \
        == "$before" ]]
    # The point is a job of its own now. The file `cancelled` records the point's state, because
    # Slurm forgets the job.
    dl cancel "$sweep"
    wait_until 60 is_state "$sweep/0" cancelled
    [ -e "$(json status "$sweep/0" | jq -r .path)/cancelled" ]
    scontrol update partitionname=batch state=up
    [[ $(json sweep "$sweep" --sort point | jq -c '.[0] | [.result.test_accuracy, .result_of]') \
        == "$before" ]]
    run dl diff "$sweep"
    [[ $status == 0 && $output == *"nothing was compared"* ]]
    run dl diff "$sweep/1"
    [[ $status == 0 && $output == *"nothing was compared"* ]]
    run dl interactive train.yaml -- true
    [[ $status == 2 && $output == *"is a sweep of 2 points"*"--point N"* ]]
    run dl interactive train.yaml --point 1 --dry-run -- true
    [ "$status" -eq 0 ]
}

@test "while a sweep runs, --watch prints how many of its points are in each state" {
    as_user tee "$dir/waiting.yaml" >/dev/null <<'YAML'
name: waiting
resources: {nodes: 1, tasks_per_node: 1, time: 5m}
launch: {preset: plain, command: [bash, -c, 'until [[ -e go ]]; do sleep 0.1; done']}
sweep: {parameters: {environment.vars.P: [1, 2]}}
YAML
    as_user bash -c 'cd "$1" && exec dlrun submit waiting.yaml --watch' - "$dir" \
        >"$BATS_TEST_TMPDIR/out" 2>&1 &
    wait_until 60 grep -q ': 2 points: 2 running' "$BATS_TEST_TMPDIR/out"
    as_user touch "$dir/go"
    wait "$!"
}
