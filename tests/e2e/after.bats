#!/usr/bin/env bats
# Runs that wait for other runs (after), copies of the code (code.snapshot), and
# environment.setup_node.
# timeout: 300

load helpers

setup() {
    dir=$(fresh_dir)
    for name in first second; do
        cat >"$dir/$name.yaml" <<YAML
name: $name
resources: {nodes: 1, tasks_per_node: 1, time: 5m}
launch:
  preset: plain
  command: [bash, -c, 'until [[ -e go ]]; do sleep 0.1; done; touch $name; [[ ! -e fail ]]']
YAML
    done
    chown "$DLRUN_TESTBED_USER:" "$dir"/*.yaml
}

state() { dl status "$1" --json | jq -r .state; }
is_state() { [[ $(state "$1") == "$2" ]]; }
job() { dl status "$1" --json | jq -r .job; }
second_says_what_it_waits_for() {
    [[ $(dl status second) == *"job $(job first) is the run first-"* ]]
}
dependency() {
    scontrol show job --oneliner "$(job "$1")" | sed -n 's/.* Dependency=\([^ ]*\).*/\1/p'
}

@test "a job with after.ok starts only after the run of that key has succeeded" {
    dl submit first.yaml
    dl submit second.yaml --set 'after.ok=[first]'
    [[ $(dependency second) == "afterok:$(job first)"* ]]
    is_state second pending
    wait_until 30 second_says_what_it_waits_for
    [ "$(dl status second --json | jq -r .slurm_reason)" = Dependency ]
    # A resubmission of the second run waits again.
    dl cancel second
    wait_until 30 is_state second cancelled
    dl resubmit second
    [[ $(dependency second) == "afterok:$(job first)"* ]]
    [[ $(dl check second.yaml --set 'after.ok=[first]') \
        == *"waits     afterok:$(job first) (first-"* ]]
    run dl submit second.yaml --dry-run --set 'after.ok=[first]'
    [[ $output == *"--dependency=afterok:$(job first)"* ]]
    for words in check "submit --dry-run"; do
        # shellcheck disable=SC2086 # splits the words
        run dl $words second.yaml --set 'after.ok=[nosuch]'
        [ "$status" -eq 2 ]
        [[ $output == *"--set after.ok=[nosuch]"*"no run 'nosuch'"* ]]
    done
    as_user touch "$dir/go"
    wait_until 60 is_state second completed
    [ "$dir/second" -nt "$dir/first" ]
    [[ $(dl check second.yaml --set 'after.ok=[first]') \
        == *"waits     for nothing: first-"*" has completed"* ]]
    dl resubmit second # The first run has succeeded, so this job waits for no other job.
    [[ $(dependency second) != *"$(job first)"* ]]
}

@test "if the run of after.ok fails, the job that waits for it is cancelled" {
    dl submit first.yaml
    dl submit second.yaml --set 'after.ok=[first]'
    as_user touch "$dir/fail" "$dir/go"
    wait_until 60 is_state first failed
    wait_until 60 is_state second cancelled
    [ "$(dl status second --json | jq -r .detail)" \
        = "CANCELLED: it waited for afterok:$(job first), which can no longer be fulfilled" ]
    [ ! -e "$dir/second" ]
    [[ $(dl status second) == *"  waited    for job $(job first), the run first-"*" (failed)"* ]]
    run dl wait second
    [[ $output == *"; job $(job first) is the run first-"*" (failed), see \`dlrun status first-"* ]]
    run dl resubmit second
    [ "$status" -eq 2 ]
    [[ $output == *"/resolved.yaml:"*"after.ok: first-"*" is failed: this job would never start"* ]]
    [[ $output == *"again; then "*"/resolved.yaml --set after.ok=RUN"* ]]
}

@test "if a pending run is cancelled, the status of a job that waited for it shows this run" {
    dl submit first.yaml --set resources.begin=now+1hour
    dl submit second.yaml --set 'after.ok=[first]'
    dl cancel first
    wait_until 60 is_state second cancelled
    [[ $(dl status second) == *"  waited    for job $(job first), the run first-"*" (cancelled)"* ]]
}

@test "jobs with after.notok or after.any start after a failure, and keys of after accept job ids" {
    dl submit first.yaml
    dl submit second.yaml --set "after.notok=[first]" --set "after.any=$(job first)"
    # An interactive session waits for the runs and for the job ids of the spec: salloc's option
    # --dependency has both.
    as_user bash -c 'cd "$1" &&
        exec dlrun interactive second.yaml --set name=session --set "after.any=[first, \"1\"]" \
            -- touch session' \
        - "$dir" </dev/null &
    session_waits() {
        [[ $(scontrol show job --oneliner "$(squeue -h -n session -o %i)") \
            == *"Dependency=afterany:$(job first)("* ]]
    }
    wait_until 30 session_waits
    as_user touch "$dir/fail" "$dir/go"
    wait_until 60 is_state first failed
    wait_until 60 is_state second failed
    [ -e "$dir/second" ]
    wait "$!"
    [ -e "$dir/session" ]
    run dl render second.yaml --set 'after.ok=[12, "13_4"]'
    [[ $output == *"#SBATCH --dependency=afterok:12,afterok:13_4"* ]]
}

@test "a dependency on an ended run is checked at submission, and refused if it can never be met" {
    as_user touch "$dir/go"
    dl submit first.yaml --watch
    dl submit second.yaml --set 'after.ok=first'
    [[ $(dependency second) != *"$(job first)"* ]]
    wait_until 60 is_state second completed
    run dl submit second.yaml --set 'after.notok=[first]' --set 'after.any=[no-such]'
    [ "$status" -eq 2 ]
    [[ $output == *"--set after.notok=[first]"*"is completed: this job would never start"* ]]
    [[ $output == *"no run 'no-such'"* ]]
    run dl run second.yaml --set 'after.ok=[first]'
    [ "$status" -eq 2 ]
    [[ $output == *"cannot wait for other jobs"* ]]
}

@test "submit --chain: each job waits for the one before, and nothing is sent if a spec is wrong" {
    run dl submit first.yaml second.yaml
    [ "$status" -eq 2 ]
    [[ $output == *"--chain submits several"* ]]
    as_user bash -c "sed s/nodes:/nodez:/ '$dir/first.yaml' >'$dir/wrong.yaml'"
    run dl submit first.yaml wrong.yaml --chain
    [ "$status" -eq 2 ]
    [[ $output == *"wrong.yaml:2"*"nodez"* ]]
    [ -z "$(squeue -h -u "$DLRUN_TESTBED_USER")" ]
    as_user bash -c "sed s/first/third/ '$dir/first.yaml' >'$dir/third.yaml'"
    dl submit first.yaml second.yaml third.yaml --chain
    [[ $(dependency second) == "afterok:$(job first)"* ]]
    [[ $(dependency third) == "afterok:$(job second)"* ]]
    grep -q "$(dl status second --json | jq -r .path)" \
        "$(dl status third --json | jq -r .path)/resolved.yaml"
    as_user touch "$dir/go"
    wait_until 60 is_state third completed
    [ "$dir/third" -nt "$dir/first" ]
    # If the first job fails, Slurm cancels the next one instead of letting it wait for ever.
    rm "$dir/go"
    dl submit first.yaml second.yaml --chain
    as_user touch "$dir/fail" "$dir/go"
    wait_until 60 is_state first failed
    wait_until 90 is_state second cancelled
}

@test "a run waits for all points of a sweep, resubmitted or not, and is refused if one failed" {
    # shellcheck disable=SC2016 # not expanded by the test
    local program='until [[ -e go ]]; do sleep 0.1; done; [[ ! -e fail || $DLRUN_NNODES == 1 ]]'
    dl submit first.yaml \
        --set 'sweep.parameters={environment.vars.P: [1, 2], resources.nodes: [1, 2]}' \
        --set "launch.command=[bash, -c, \"$program\"]"
    mapfile -t jobs < <(dl sweep first --json | jq -r '[.[].job | split("_")[0]] | unique[]')
    [ "${#jobs[@]}" -eq 2 ] # The sweep has one array for each number of nodes.
    [[ $(dl check second.yaml --set 'after.ok=first') \
        == *"waits     afterok:${jobs[0]}:${jobs[1]}"* ]]
    run dl check second.yaml --set 'after.notok=first'
    [ "$status" -eq 2 ]
    [[ $output == *"consists of 2 jobs"* ]]
    as_user touch "$dir/fail" "$dir/go"
    wait_until 60 is_state first failed
    run dl check second.yaml --set 'after.ok=first'
    [ "$status" -eq 2 ]
    [[ $output =~ first.*/[0-9]" is failed: this job would never start" ]]
    [[ $output =~ "again first: \`dlrun resubmit first-".*/[0-9] ]]
    [[ $(dl check second.yaml --set 'after.any=first') != *'waits     after'* ]]
    as_user rm "$dir/go"
    mapfile -t failed < <(dl sweep first --json | jq -r '.[] | select(.state == "failed") | .point')
    for point in "${failed[@]}"; do dl resubmit "first/$point"; done
    waits=$(dl check second.yaml --set 'after.ok=first')
    for point in "${failed[@]}"; do [[ $waits == *"afterok:"*"$(job "first/$point")"* ]]; done
    # At submission dlrun records the path of the run that `last` selects. A resubmission waits for
    # that run, not for itself.
    dl submit second.yaml --set 'after.any=last'
    waited=$(dependency second)
    dl cancel second
    dl resubmit second
    [ "$(dependency second)" = "$waited" ]
    as_user rm "$dir/fail"
    as_user touch "$dir/go"
    wait_until 60 is_state first completed
}

@test "with code.snapshot the job runs the code as it was at submission" {
    as_user bash -c "echo 'echo version one' >'$dir/work.sh'"
    local program="until [[ -e $dir/go ]]; do sleep 0.1; done; bash work.sh"
    dl submit first.yaml --set code.snapshot=true --set "launch.command=[bash, -c, \"$program\"]"
    as_user bash -c "echo 'echo version two' >'$dir/work.sh'"
    as_user touch "$dir/go"
    wait_until 60 is_state first completed
    [[ $(dl logs first) == *"version one"* ]]
    dl run first.yaml --set code.snapshot=true \
        --set 'launch.command=[bash, -c, "bash work.sh; pwd"]'
    [[ $(dl logs last) == *"version two"*"/code"* ]]
}

@test "an edited script keeps its dependency, code snapshot and spec, also when it is resubmitted" {
    as_user bash -c "cd '$dir' && git init -q && echo 'echo version one' >work.sh &&
        git add work.sh && git -c user.name=t -c user.email=t@example.org commit -qm one"
    dl submit first.yaml
    dl render second.yaml --set 'after.ok=[first]' --set "after.any=[\"$(job first)\"]" \
        --set code.snapshot=true \
        --set resources.cpus_per_task=2 --set 'launch.command=[bash, work.sh]' -o job.sh
    as_user sed -i -e 's/--time=00:05:00/--time=00:30:00/' \
        -e 's/--output=.*/--output=log-%j\n#SBATCH -e err-%j/' "$dir/job.sh"
    [[ $(dl diff job.sh) == *"+#SBATCH --time=00:30:00 "* ]]
    as_user bash -c 'mkdir "$1/sub" && mv "$1/job.sh" "$1/sub" && cd / &&
        dlrun submit "$1/sub/job.sh" --json' \
        - "$dir" >"$BATS_TEST_TMPDIR/submitted"
    # These are the core hours of the edited script.
    jq -e ".core_hours == 1" "$BATS_TEST_TMPDIR/submitted"
    [[ $(dependency second) == "afterany:$(job first)"*",afterok:$(job first)"* ]]
    as_user bash -c "echo 'echo version two' >'$dir/work.sh'; touch '$dir/go'"
    wait_until 60 is_state second completed
    [ "$(dl logs second | grep version)" = "version one" ]
    path=$(dl status second --json | jq -r .path)
    for file in spec.yaml resolved.yaml plan.json; do [ -s "$path/$file" ]; done
    # The recorded repository is that of the spec, not that of the directory where submit ran.
    [ "$(jq -r '.git.root' "$path/provenance.json")" = "$dir" ]
    # The resubmission runs the same script with the same code. A submission of the resolved spec
    # copies the code again, and dlrun says so.
    run dl resubmit second --watch
    [[ $output == *"cost       at most 1 core-hours"* ]]
    [ "$(dl logs last | grep version)" = "version one" ]
    # The log and the error file are in the folder of the script, not in the copy of the code.
    for run in "$path" last; do
        grep -qx "version one" "$dir/log-$(job "$run")"
        [[ -e $dir/err-$(job "$run") && $(dl status "$run") == *"$dir/err-$(job "$run")"* ]]
    done
    run dl submit "$path/resolved.yaml" --watch
    [ "$status" -eq 0 ]
    [[ $output \
        == *"a new copy of $dir as it is now; \`dlrun resubmit ${path##*/}\`"*"version two"* ]]
    as_user rm -r "$path/code"
    run dl resubmit "$path"
    [ "$status" -eq 6 ]
    [[ $output == *"the copy of the code that it ran, $path/code, is gone"* ]]
}

@test "environment.setup_node runs once per node before the ranks, and its failure ends the job" {
    # On each node setup_node gets the smallest number of CPUs that the job has on any node. Here
    # the job has 4 CPUs on one node and 2 on the other.
    dl submit first.yaml --watch --set resources.nodes=2 --set resources.tasks_per_node=null \
        --set resources.ntasks=3 \
        --set resources.cpus_per_task=2 \
        --set 'environment.setup_node="echo $SLURM_CPUS_PER_TASK >>cpus"' \
        --set 'launch.command=[hostname]'
    [ "$(cat "$dir/cpus")" = $'2\n2' ]
    # shellcheck disable=SC2016 # not expanded by the test
    local setup='hostname >>nodes; echo staged $SLURM_CPUS_PER_TASK >/tmp/staged'
    dl submit first.yaml --watch --set resources.nodes=2 --set resources.tasks_per_node=2 \
        --set resources.cpus_per_task=3 \
        --set "environment.setup_node=\"$setup\"" \
        --set 'launch.command=[bash, -c, "cat /tmp/staged"]'
    [ "$(sort "$dir/nodes" | tr '\n' ' ')" = "n1 n2 " ]
    [ "$(dl logs first | grep -c '^staged 6$')" -eq 4 ]
    run dl submit first.yaml --watch --set 'environment.setup_node="false; true"'
    [ "$status" -eq 5 ]
    [[ $output == *"the ranks were not started"* ]]
}
