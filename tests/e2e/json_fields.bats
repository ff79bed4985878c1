#!/usr/bin/env bats
# The --json outputs that need Slurm have the fields that docs/json describes.
# tests/golden/json_test.py and container_import.bats compare the other outputs.
# timeout: 200

load helpers

setup() {
    dir=$(fresh_dir)
    write hello.yaml <<'YAML'
name: hello
resources: {nodes: 1, tasks_per_node: 2, time: 5m}
launch: {preset: plain, command: [bash, -c, 'echo "rank $DLRUN_RANK"']}
YAML
}
teardown() { end_test; }

write() { as_user tee "$dir/$1" >/dev/null; }
is_running() { [[ $(job_state "$1") == RUNNING ]]; }

@test "submit, status, top, resubmit, wait and check print the documented fields" {
    dl submit hello.yaml --json --watch >"$BATS_TEST_TMPDIR/out"
    # The output has two objects: the submission, and the final status of the run.
    [ "$(jq -s length "$BATS_TEST_TMPDIR/out")" -eq 2 ]
    jq -s '.[0]' "$BATS_TEST_TMPDIR/out" | has_fields_of submit#job
    jq -s '.[1]' "$BATS_TEST_TMPDIR/out" | has_fields_of status
    jq -s -e '.[1].state == "completed"' "$BATS_TEST_TMPDIR/out"
    dl top last --json | has_fields_of top
    dl resubmit last --json | has_fields_of submit#job
    dl wait last --json | has_fields_of wait
    dl submit hello.yaml --test-only --json | has_fields_of submit#test_only
    dl check hello.yaml --json | has_fields_of check
}

@test "a sweep, its points and a search have the documented fields" {
    as_user cp "$dir/hello.yaml" "$dir/swept.yaml"
    as_user tee -a "$dir/swept.yaml" >/dev/null \
        <<<'sweep: {parameters: {environment.vars.LR: [a, b]}}'
    dl submit swept.yaml --json | has_fields_of submit#sweep
    dl wait last --json | has_fields_of wait
    dl sweep last --json >"$BATS_TEST_TMPDIR/points"
    has_fields_of sweep <"$BATS_TEST_TMPDIR/points"
    [ "$(jq length "$BATS_TEST_TMPDIR/points")" -eq 2 ]
    write search.sh <<'SH'
while read -r message; do
    [[ $message != *'"ask"'* ]] || echo '{"point": {"x": 1}}'
done
SH
    write search.yaml <<'YAML'
name: searched
resources: {nodes: 1, tasks_per_node: 1, time: 5m}
launch: {command: [echo, "{x}"]}
sweep: {parameters: {x: {min: 1, max: 9}}, ask: [bash, search.sh], max_points: 1}
YAML
    dl submit search.yaml --json | has_fields_of submit#search
}

@test "a run in an allocation has the documented fields" {
    job=$(as_user sbatch --parsable -N 1 --ntasks-per-node=2 -t 5 -o /dev/null --wrap 'sleep 300')
    wait_until 30 is_running "$job"
    dl submit hello.yaml --in "$job" --dry-run --json | has_fields_of submit#allocation_dry_run
    dl submit hello.yaml --in "$job" --json | has_fields_of submit#allocation
    dl wait last --json | has_fields_of wait
    # As without --in, the output has two objects: the submission, and the run's final status.
    dl submit hello.yaml --in "$job" --watch --json >"$BATS_TEST_TMPDIR/out"
    [ "$(jq -s length "$BATS_TEST_TMPDIR/out")" -eq 2 ]
    jq -s '.[0]' "$BATS_TEST_TMPDIR/out" | has_fields_of submit#allocation
    jq -s '.[1]' "$BATS_TEST_TMPDIR/out" | has_fields_of status
    jq -s -e '.[0].run == .[1].run' "$BATS_TEST_TMPDIR/out"
}

@test "doctor and bench scaling print the documented fields" {
    dl doctor --json >"$BATS_TEST_TMPDIR/doctor"
    has_fields_of doctor <"$BATS_TEST_TMPDIR/doctor"
    jq -e '(.partitions | length > 0) and (.findings | length > 0)' "$BATS_TEST_TMPDIR/doctor"
    # The program fails on two nodes, so bench leaves out two nodes.
    write rated.yaml <<'YAML'
name: rated
resources: {tasks_per_node: 1, time: 5m}
launch:
  preset: plain
  command:
    - bash
    - -c
    - |
      [[ $DLRUN_NNODES == 1 ]] || exit 7
      echo '{"final": true, "samples_per_s": 100}' >"$DLRUN_PROGRESS"
YAML
    dl bench scaling rated.yaml --nodes 1,2 --json >"$BATS_TEST_TMPDIR/scaling"
    has_fields_of bench#scaling <"$BATS_TEST_TMPDIR/scaling"
    jq -e '.results[0].samples_per_s == 100 and .left_out[0].nodes == 2' "$BATS_TEST_TMPDIR/scaling"
}
