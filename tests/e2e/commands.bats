#!/usr/bin/env bats
# The common commands (submit, run, status, logs, wait, cancel, render, diff, resubmit, explain and
# others) as an ordinary user types them, on a real Slurm cluster.
# timeout: 600

load helpers

setup() {
    dir=$(fresh_dir)
    cat >"$dir/hello.yaml" <<'YAML'
name: hello
resources: {nodes: 2, tasks_per_node: 2, time: 5m}
launch:
  preset: plain
  command: [bash, -c, 'echo "rank $DLRUN_RANK of $DLRUN_WORLD_SIZE on $(hostname)"']
YAML
    chown "$DLRUN_TESTBED_USER:" "$dir/hello.yaml"
}

# submit_waiting_ranks OPTIONS...: submits a job whose ranks wait for the file `go`
submit_waiting_ranks() {
    local program="echo waiting; until [[ -e $dir/go ]]; do sleep 0.1; done; echo gone on"
    dl submit hello.yaml --set "launch.command=[bash, -c, '$program']" "$@"
}
state() { dl status "${1:-last}" --json | jq -r .state; }
is_state() { [[ $(state) == "$1" ]]; }
field() { dl status last --json | jq -r "$1"; }

@test "submit --watch prints the ranks' output, and exits with 0 if all ranks do" {
    run dl submit hello.yaml --watch
    [ "$status" -eq 0 ]
    for rank in 0 1 2 3; do [[ $output == *"rank $rank of 4 on n"* ]]; done
    [[ $output == *"completed"* ]]
}

@test "status finds a submitted run by name, id, job or path, and only terminals get colours" {
    run dl submit hello.yaml --json
    [ "$status" -eq 0 ]
    job=$(jq -r .job <<<"$output") id=$(jq -r .run <<<"$output") path=$(jq -r .path <<<"$output")
    dl wait "$id"
    for name in last hello "$id" "${id%??}" "$job" "$path"; do
        [ "$(dl status "$name" --json | jq -r '.run + .state')" = "${id}completed" ]
    done
    [ "$(dl logs last | grep -c '^rank ')" -eq 4 ]
    [ "$(dl logs last -n 2)" = "$(dl logs last | tail -n 2)" ]
    [[ $(dl logs --rank 2 last) == "rank 2 of 4 on "* ]]
    dl wait "$id" "$job" --json | jq -e \
        --arg id "$id" \
        'length == 2 and all(.[]; .run == $id and .state == "completed" and .code == 0)'
    [[ $(dl ls) == *"$id"*"$job"*completed* ]]
    [ "$(dl ls --json | jq -r '.[0].run')" = "$id" ]
    # Colour is used on terminals, for each stream separately.
    on_terminal() {
        as_user env TERM="${2:-xterm}" NO_COLOR="${3:-}" script -qec "$1" /dev/null </dev/null
    }
    [[ $(on_terminal 'dlrun ls') == *$'\e['* &&
        $(on_terminal 'dlrun status nope; true') == *$'\e['*error* ]]
    for term_and_no_color in 'xterm 1' dumb; do
        # shellcheck disable=SC2086 # splits the words
        output=$(on_terminal 'dlrun ls; dlrun status nope; true' $term_and_no_color)
        [[ $output == *"$id"*error* && $output != *$'\e'* ]]
    done
    as_user env TERM=xterm script -qec "dlrun ls >$dir/out; dlrun status nope 2>$dir/err" \
        /dev/null </dev/null || true
    [[ $(<"$dir/out") == *"$id"* && $(<"$dir/err") == *error* &&
        $(cat "$dir/out" "$dir/err") != *$'\e'* ]]
}

@test "a run's directory has its spec, plan, script, provenance and journal, for the owner only" {
    as_user git -C "$dir" init -q
    as_user bash -c "cd '$dir' && git add . &&
        git -c user.name=t -c user.email=t@example.org commit -qm one &&
        echo '# edited' >>hello.yaml"
    dl submit hello.yaml
    path=$(field .path)
    for file in spec.yaml resolved.yaml plan.json job.sh provenance.json submission.json \
        tree.patch; do
        [ "$(stat -c %a "$path/$file")" = 600 ]
    done
    [ "$(stat -c %a "$path")" = 700 ]
    cmp "$dir/hello.yaml" "$path/spec.yaml"
    [ "$(jq -r .git.commit "$path/provenance.json")" = "$(as_user git -C "$dir" rev-parse HEAD)" ]
    grep -q '^+# edited' "$path/tree.patch"
    [ "$(jq -r .state "$path/submission.json")" = submitted ]
    # The copied programs are in the folder whose name, a hash, is in the provenance.
    copies=$dir/runs/.agents-$(id -u "$DLRUN_TESTBED_USER")/$(jq -r .tools "$path/provenance.json")
    grep -Fq "/.agents-$(id -u "$DLRUN_TESTBED_USER")/${copies##*/}/dlrun-agent" "$path/job.sh"
    cmp "$copies/dlrun-agent" "$DLRUN_TESTBED_PREFIX/bin/dlrun-agent"
}

@test "a run's surroundings.json has the job's version of Slurm, nodes, modules and packages" {
    as_user mkdir -p "$dir/venv/bin" \
        "$dir/venv/lib/python3.11/site-packages/"{numpy-1.26.4,torch-2.1.0}.dist-info
    as_user bash -c "echo 'export VIRTUAL_ENV=$dir/venv' >'$dir/venv/bin/activate'"
    as_user mkdir -p "$dir/conda/conda-meta" \
        "$dir/conda/lib/python3.10/site-packages/jax-0.4.13.dist-info"
    as_user touch "$dir/conda/conda-meta/python-3.10.12-h955ad1f_0.json" \
        "$dir/conda/conda-meta/cudatoolkit-11.8.0-h4ba93d1_11.json" "$dir/conda/conda-meta/history"
    dl submit hello.yaml --watch --set "environment.venv=$dir/venv" \
        --set "environment.setup=export LOADEDMODULES=GCC/8.3.0:Python/3.11 CONDA_PREFIX=$dir/conda"
    surroundings=$(field .path)/surroundings.json
    wait_until 30 test -e "$surroundings"
    jq -e '(.slurm | startswith("slurm")) and .nodes == ["n1", "n2"] and
        .modules == ["GCC/8.3.0", "Python/3.11"]' "$surroundings"
    jq -e '.venv.packages == ["numpy-1.26.4", "torch-2.1.0"] and .attempt == 0 and
        .partition == "batch"' "$surroundings"
    jq -e --arg at "$dir/conda" '.conda == {
        prefix: $at,
        packages: ["cudatoolkit-11.8.0-h4ba93d1_11", "python-3.10.12-h955ad1f_0", "jax-0.4.13"]
    }' "$surroundings"
}

@test "if a rank is killed, --watch and wait exit with 5 and show host and signal, as status does" {
    # shellcheck disable=SC2016 # not expanded by the test
    local program='[[ $DLRUN_RANK != 3 ]] || kill -9 $$; trap : TERM; while :; do sleep 1; done'
    run dl submit hello.yaml --watch --set "launch.command=[bash, -c, \"$program\"]"
    [ "$status" -eq 5 ]
    [[ $output == *"rank 3 on n2"*SIGKILL* ]]
    run dl wait last
    [ "$status" -eq 5 ]
    [[ $output == *"rank 3 on n2"*SIGKILL* ]]
    run dl wait last --json
    [ "$status" -eq 5 ]
    jq -e '.[0] | .state == "failed" and .first_failed.rank == 3' <<<"$output"
    [ "$(field '.first_failed | "\(.rank) \(.host) \(.signal)"')" = "3 n2 SIGKILL" ]
    [[ $(dl status last) == *"rank 3 on n2 was ended by SIGKILL"* ]]
}

@test "a command that is not on the node ends the run with 127, and the log shows the command" {
    run dl submit hello.yaml --watch --set 'launch.command=[no-such-program]'
    [ "$status" -eq 5 ]
    [ "$(field .code)" -eq 127 ]
    [[ $(dl logs last) == *no-such-program* ]]
}

@test "a failing setup ends the run before a rank starts, and the record has code and command" {
    run dl submit hello.yaml --watch --set 'environment.setup="exit 9"'
    [ "$status" -eq 5 ]
    [[ $output == *"the job script ended with code 9 at: exit 9; the ranks were not started"* ]]
    [ "$(field '.state + " \(.code)"')" = "failed 9" ]
    [ ! -e "$(field .path)/logs" ]
    # A script that was submitted by hand also leaves a failed run.
    dl render hello.yaml --set 'environment.modules=[no-such-module]' -o job.sh
    as_user sbatch "$dir/job.sh"
    wait_until 60 no_jobs
    dl ls --runs runs
    [[ $(dl ls --runs runs | sed -n 2p) == hello-*failed*"the job script ended with code "* ]]
}

@test "a refusal by Slurm is recorded and printed in Slurm's words, with exit code 3" {
    run dl submit hello.yaml --set resources.partition=nope
    [ "$status" -eq 3 ]
    [[ $output == *"nvalid partition"* ]]
    [ "$(state)" = refused ]
    run dl submit hello.yaml --test-only --set resources.partition=nope
    [ "$status" -eq 3 ]
    run dl check hello.yaml --set resources.nodes=99
    [ "$status" -eq 3 ]
    [[ $output == *"resources.nodes is 99, but partition "*" has "*" node"* ]]
    run dl submit hello.yaml --set resources.nodes=99 # Slurm accepts this job.
    [[ $status -eq 0 \
        && $output == *"cannot start (Partition"*"): its partition "*"dlrun cancel hello-"* ]]
    dl cancel last
    run dl submit hello.yaml --set slurm.chdir=/no/such/folder
    [[ $status -eq 1 && $output \
        == *"slurm.chdir: the start folder"*"/no/such/folder, where sbatch is to run: No such file"* ]]
}

@test "--test-only and --dry-run submit nothing and write nothing" {
    run dl submit hello.yaml --test-only
    [ "$status" -eq 0 ]
    [[ $output == *"to start at"* ]]
    dl submit hello.yaml --test-only --json >"$BATS_TEST_TMPDIR/test-only.json"
    jq -e '.run == null and .name == "hello" and (.slurm | contains("to start at"))' \
        "$BATS_TEST_TMPDIR/test-only.json"
    run dl submit hello.yaml --dry-run
    [ "$status" -eq 0 ]
    [[ $output == *"#SBATCH --nodes=2"* ]]
    no_jobs
    [ ! -e "$dir/runs" ]
}

@test "dlrun gets the exit codes of programs although its parent ignores SIGCHLD" {
    run as_user env --ignore-signal=CHLD --chdir="$dir" dlrun submit hello.yaml --test-only
    [[ $status -eq 0 && $output == *"to start at"* ]]
}

@test "submit prints the estimated start if squeue answers, and the limits of the partition" {
    as_user mkdir -p "$dir/config/sites" "$dir/bin"
    as_user tee "$dir/config/sites/here.yaml" >/dev/null <<'YAML'
partitions:
  batch: {time: 1h, max_nodes: 4, cpus_per_node: 64}
YAML
    as_user tee "$dir/bin/squeue" >/dev/null <<<$'#!/bin/sh\nexec sleep 100'
    as_user chmod +x "$dir/bin/squeue"
    dl_with_config() {
        as_user bash -c 'cd "$1" && shift && DLRUN_CONFIG=$PWD/config exec dlrun "$@"' - "$dir" "$@"
    }
    limits='batch: at most 01:00:00 and 4 nodes for a job; a node has 64 CPUs'
    run dl_with_config check hello.yaml --set site=here --set resources.partition=batch
    [[ $output == *"partition $limits"* ]]
    run dl_with_config submit hello.yaml --set site=here --set resources.partition=batch \
        --set resources.begin=now+1hour
    [[ $output == *"start      about 20"*", as Slurm estimates it now"*"partition  $limits"* ]]
    start=$(dl submit hello.yaml --set resources.begin=now+1hour --json | jq -r .start)
    (($(date -d "$start" +%s) - $(date +%s) > 3000))
    start=$(dl submit hello.yaml --set resources.begin=now+1hour \
        --set 'sweep.parameters={resources.time: [1m, 2m]}' --json | jq -r .start)
    (($(date -d "$start" +%s) - $(date +%s) > 3000))
    run as_user bash -c 'cd "$1" &&
        PATH=$1/bin:$PATH exec timeout 60 dlrun submit hello.yaml --json' \
        - "$dir"
    [ "$status" -eq 0 ]
    [ "$(jq -r .start <<<"$output")" = null ]
}

@test "an option that sbatch or srun lacks is reported with its line and the nearest name" {
    as_user sed -i '/^launch/i slurm: {mial-user: me, mail-typ: NONE, frobnicate: true}' \
        "$dir/hello.yaml"
    # sbatch accepts a unique prefix of an option: --mail-typ is --mail-type.
    for words in check submit "submit --test-only"; do
        # shellcheck disable=SC2086 # splits the words
        run dl $words hello.yaml --set 'launch.srun={labell: true}'
        [ "$status" -eq 2 ]
        message="slurm.mial-user: the sbatch here has no option --mial-user;"
        message+=" did you mean 'mail-user'?"
        [[ $output == *"hello.yaml:3:20: error: $message"* ]]
        [[ $output == *"slurm.frobnicate: the sbatch here has no option --frobnicate"* &&
            $output != *"option --mail-typ"* ]]
        message="launch.srun.labell: the srun here has no option --labell; did you mean 'label'?"
        [[ $output == *"--set launch.srun={labell: true}"*"warning: $message"* ]]
    done
    no_jobs
    [ ! -e "$dir/runs" ]
}

@test "an invalid value and an unknown key of --set are refused with 2, and nothing is written" {
    run dl submit hello.yaml --set resources.nodes=many --set resorces.time=1
    [ "$status" -eq 2 ]
    [[ $output == *resources.nodes* && $output == *resorces* ]]
    [ ! -e "$dir/runs" ]
}

@test "logs -f follows a running job and ends with it" {
    submit_waiting_ranks
    dl logs -f last >"$BATS_TEST_TMPDIR/log" 2>&1 &
    follower=$!
    wait_until 30 grep -q waiting "$BATS_TEST_TMPDIR/log"
    [ "$(state)" = running ]
    as_user touch "$dir/go"
    wait "$follower"
    grep -q 'gone on' "$BATS_TEST_TMPDIR/log"
    grep -q completed "$BATS_TEST_TMPDIR/log"
}

@test "logs -f --rank follows one rank only" {
    submit_waiting_ranks
    dl logs -f --rank 1 last >"$BATS_TEST_TMPDIR/log" 2>/dev/null &
    follower=$!
    wait_until 30 grep -q waiting "$BATS_TEST_TMPDIR/log"
    as_user touch "$dir/go"
    wait "$follower"
    [ "$(cat "$BATS_TEST_TMPDIR/log")" = $'waiting\ngone on' ]
}

@test "cancel ends a running job and a pending one" {
    submit_waiting_ranks
    wait_until 30 is_state running
    run dl cancel last
    [[ $status -eq 0 && $output == *"its processes are being ended; \`dlrun wait "* ]]
    run dl wait last
    [ "$status" -eq 5 ]
    [ "$(state)" = cancelled ]
    dl submit hello.yaml --set resources.begin=now+1hour
    [ "$(state)" = pending ]
    dl cancel last
    run dl wait last
    [ "$status" -eq 5 ]
    [ "$(state)" = cancelled ]
    run dl cancel last
    [ "$status" -eq 0 ]
}

@test "twenty commands that wait for a run at the same time share their queries to the controller" {
    as_user mkdir "$dir/bin"
    as_user bash -c "cat >'$dir/bin/squeue'" <<SH
#!/bin/bash
echo >>"$dir/queries"
exec $slurm_bin/squeue "\$@"
SH
    as_user chmod +x "$dir/bin/squeue"
    submit_waiting_ranks
    wait_until 30 is_state running
    as_user bash -c 'cd "$1" && PATH=$1/bin:$PATH &&
        for i in {1..20}; do dlrun wait last >"wait-$i" 2>&1 & done; wait' \
        - "$dir" &
    wait_until 30 test -s "$dir/queries"
    # Each of the 20 commands needs Slurm's answer at its start, one second later and three seconds
    # later. Without shared answers they would send 60 queries.
    sleep 4
    [ "$(wc -l <"$dir/queries")" -le 15 ]
    as_user touch "$dir/go"
    wait "$!"
    [ "$(cat "$dir"/wait-* | grep -c completed)" -eq 20 ]
}

@test "Ctrl-C while watching leaves the job running, says so, and exits with 130" {
    as_user bash -c 'cd "$1" && echo $$ >pid &&
        program="echo waiting; until [[ -e $1/go ]]; do sleep 0.1; done" &&
        exec dlrun submit hello.yaml --watch --set "launch.command=[bash, -c, \"$program\"]"' \
        - "$dir" >"$BATS_TEST_TMPDIR/out" 2>&1 &
    wait_until 30 grep -q '^waiting' "$BATS_TEST_TMPDIR/out"
    kill -INT "$(cat "$dir/pid")"
    code=0
    wait $! || code=$?
    printed=$(cat "$BATS_TEST_TMPDIR/out")
    [ "$code" -eq 130 ]
    [[ $printed == *"continues"* ]]
    [ "$(state)" = running ]
}

@test "render's script passes shellcheck and sbatch --test-only, and sbatch can submit it twice" {
    dl render hello.yaml -o job.sh
    shellcheck "$dir/job.sh"
    as_user sbatch --test-only "$dir/job.sh"
    first=$(as_user sbatch --parsable "$dir/job.sh")
    # The second run must be newer, so it is submitted only after the first has ended.
    wait_until 60 no_jobs
    second=$(as_user sbatch --parsable "$dir/job.sh")
    wait_until 60 no_jobs
    for job in "$first" "$second"; do
        run=$dir/runs/hello-$job
        [ "$(dl status "$run" --json | jq -r .state)" = completed ]
        [ "$(cat "$run"/logs/attempt-0/rank-*.log | wc -l)" -eq 4 ]
    done
    [[ $(dl ls --runs runs) == *"hello-$first"* ]]
    [ "$(dl status "$first" --json | jq -r .run)" = "hello-$first" ]
    # A name refers to the newest run of that name.
    [ "$(dl status hello --json | jq -r .run)" = "hello-$second" ]
    [ "$(dl logs "$first" | grep -c '^rank . of 4 on n')" -eq 4 ]
}

@test "submit accepts an edited script, and diff shows the edits" {
    # Only Slurm can fill in these placeholders.
    dl render hello.yaml -o job.sh --set 'resources.output="%x-%4j-%N.txt"'
    as_user sed -i 's/--nodes=2/--nodes=1/' "$dir/job.sh"
    run dl submit job.sh --watch
    [ "$status" -eq 0 ]
    [[ $output == *"rank 1 of 2 on n"* ]]
    cmp "$dir/job.sh" "$(field .path)/job.sh"
    # The run has the spec of its script, and `diff` shows the edits, before and after the
    # submission. For a script that was not edited, `diff` shows none.
    [[ $(<"$(field .path)/resolved.yaml") == *"tasks_per_node: 2"* ]]
    for script_or_run in job.sh last; do
        run dl diff "$script_or_run"
        [ "$status" -eq 0 ]
        [[ $output == *"-#SBATCH --nodes=2 "*"+#SBATCH --nodes=1 "* ]]
        [ "$(grep -c '^[-+][^-+]' <<<"$output")" -eq 2 ]
    done
    dl render hello.yaml -o other.sh
    [[ $(dl diff other.sh 2>&1) == *"nothing was edited"* ]]
    run dl diff hello.yaml
    [ "$status" -eq 6 ]
}

@test "resubmit runs the same script as a new run, but not while the old run is running" {
    submit_waiting_ranks
    wait_until 30 is_state running
    first=$(field .run)
    run dl resubmit last
    [ "$status" -eq 2 ]
    [[ $output == *"is still running"* ]]
    as_user touch "$dir/go"
    dl wait last
    run dl resubmit last --watch
    [ "$status" -eq 0 ]
    [[ $output == *"gone on"* ]]
    [ "$(field .run)" != "$first" ]
    [ "$(field .state)" = completed ]
    path=$(field .path)
    cmp "$dir/runs/$first/job.sh" "$path/job.sh"
    cmp "$dir/runs/$first/resolved.yaml" "$path/resolved.yaml"
    [ "$(jq -r .repeats "$path/provenance.json")" = "$first" ]
    # A script written by hand starts in the folder of its first submission, also when it is
    # resubmitted from elsewhere, twice.
    as_user mkdir "$dir/sub"
    as_user tee "$dir/where.sh" >/dev/null <<'SH'
#!/bin/bash
#SBATCH --chdir=sub --output=where-%j.out --time=5
echo "in $PWD"
SH
    [[ $(dl submit where.sh --watch) == *"in $dir/sub" ]]
    for _ in 1 2; do
        [[ $(as_user bash -c 'cd / && dlrun resubmit where --watch') == *"in $dir/sub" ]]
    done
    (($(cat "$dir"/sub/where-*.out | wc -l) == 3))
}

@test "if a script prints only errors, logs and status show the path of the error file" {
    as_user tee "$dir/job.sh" >/dev/null <<SH
#!/bin/bash
#SBATCH --time=5 --output=out-%j.txt
#SBATCH -e %x-%j.err
until [[ -e $dir/go ]]; do sleep 0.1; done
echo "no module named toch" >&2
exit 3
SH
    dl submit job.sh
    log=$dir/out-$(field .job).txt errors=$dir/job-$(field .job).err
    wait_until 30 test -e "$log"
    # The run may count as pending for a moment.
    [[ $(dl logs last 2>&1 >"$BATS_TEST_TMPDIR/log") == *"no output yet; the run is "* ]]
    [ ! -s "$BATS_TEST_TMPDIR/log" ]
    as_user touch "$dir/go"
    run dl wait last
    [ "$status" -eq 5 ]
    [[ $output == *"the errors of the job are in $errors"* ]]
    grep -q "no module named toch" "$errors"
    run dl logs last
    [[ $output == *"the errors of the job are in $errors"*"no module named toch" ]]
    [[ $(dl status last) == *"error log $errors"* ]]
}

@test "a run's resolved spec, submitted from anywhere, repeats the run" {
    dl submit hello.yaml --watch
    path=$(field .path)
    run as_user bash -c 'cd / && dlrun submit "$1/resolved.yaml" --runs "$2/runs" --watch' \
        - "$path" "$dir"
    [ "$status" -eq 0 ]
    [[ $output == *"rank 3 of 4 on n"* ]]
    diff <(sed 's/ *# .*//' "$path/job.sh") <(sed 's/ *# .*//' "$(field .path)/job.sh")
}

@test "from inside a job, submit works and inherits none of the outer job's variables" {
    cat >"$dir/outer.yaml" <<YAML
name: outer
resources: {nodes: 1, tasks_per_node: 1, time: 5m}
launch:
  preset: mpi
  command: [dlrun, submit, $dir/inner.yaml, --runs, $dir/runs]
YAML
    cat >"$dir/inner.yaml" <<YAML
name: inner
resources: {nodes: 2, tasks_per_node: 1, time: 5m}
environment: {setup: "env >$dir/environment"}
launch: {preset: plain, command: [hostname]}
YAML
    as_user env SLURM_CPU_BIND=quiet,mask_cpu:0x1 SBATCH_PARTITION=preempt dlrun submit \
        "$dir/outer.yaml" --runs "$dir/runs" --watch
    inner_ended() { [[ $(dl status inner --json | jq -r .state) == completed ]]; }
    wait_until 60 inner_ended
    outer=$(dl status outer --json | jq -r .job)
    run grep -E "^(SLURM_JOB_ID|SLURM_JOBID|DLRUN_JOB)=$outer\$" "$dir/environment"
    [ "$status" -eq 1 ]
    # Slurm 26.05 gives a batch script a negative SLURM_STEP_ID, so a value with '-' is allowed.
    names='PMIX_RANK|PMIX_NAMESPACE|SLURM_CPU_BIND|SLURM_STEP_ID'
    names+='|DLRUN_SECRET|DLRUN_RANK|DLRUN_ATTEMPT'
    run grep -E "^($names)=([^-]|\$)" "$dir/environment"
    [ "$status" -eq 1 ]
}

@test "without Slurm's commands the error says what to do" {
    for words in "submit hello.yaml" "interactive hello.yaml -- true"; do
        run as_user bash -c 'cd "$1" && read -ra words <<<"$3" &&
            PATH=/nowhere exec "$2" "${words[@]}"' \
            - "$dir" "$DLRUN_TESTBED_PREFIX/bin/dlrun" "$words"
        [ "$status" -eq 6 ]
        [[ $output == *"dlrun run"* ]]
    done
}

@test "an unknown command is refused, and the error suggests the nearest name" {
    run dl sumbit hello.yaml
    [ "$status" -eq 2 ]
    [[ $output == *"'sumbit' is not a command of dlrun; did you mean 'submit'?"* ]]
}

@test "a missing spec or run gives exit code 6" {
    run dl submit no-such.yaml
    [ "$status" -eq 6 ]
    run dl status no-such-run
    [ "$status" -eq 6 ]
    run dl logs no-such-run
    [ "$status" -eq 6 ]
}

@test "status reports a damaged file of a run, and ls still shows the other runs" {
    dl submit hello.yaml
    dl wait last
    dl submit hello.yaml
    dl wait last
    path=$(field .path)
    as_user bash -c "echo '{' >'$path/submission.json'"
    run dl status last
    [ "$status" -eq 2 ]
    [[ $output == *"$path/submission.json"*damaged* ]]
    run dl ls
    [ "$status" -eq 0 ]
    [[ $output == *"submission.json"* && $output == *completed* ]]
}

@test "a runs folder that cannot be used is refused with the reason" {
    run dl check hello.yaml --runs /root/runs
    [[ $status -eq 1 && $output == *"the runs folder"*"/root"*"Permission denied"*"--runs"* ]]
    run dl check hello.yaml --runs "$dir/hello.yaml/runs"
    [[ $status -eq 1 && $output == *"Not a directory"* ]]
    install -d -m 1777 "$dir/shared"
    install -d -m 700 -o nobody "$dir/shared/.agents" "$dir/shared/.agents-$(id -u nobody)"
    # A runs folder can be used although it has copies of the agent that belong to another user.
    run dl check hello.yaml --runs shared
    [[ $status -eq 0 && $output == *valid* ]]
    agents=.agents-$(id -u "$DLRUN_TESTBED_USER")
    install -d -m 700 -o nobody "$dir/shared/$agents"
    run dl check hello.yaml --runs shared
    [[ $status -eq 2 && $output == *"shared/$agents: belongs to user nobody"* ]]
    run dl submit hello.yaml --runs shared
    message="shared/$agents: belongs to user nobody; choose another runs folder with --runs"
    [[ $status -eq 2 && $output == *"$message"* ]]
}

@test "a run is recorded with umask 0777, without HOME, and with stdout closed or on a full disk" {
    as_user bash -c 'cd "$1" && umask 0777 && dlrun init --site testbed -o masked.yaml -- true &&
        dlrun submit hello.yaml --runs masked' \
        - "$dir"
    wait_until 60 no_jobs
    [ "$(stat -c %A "$dir/masked.yaml" "$dir/masked" | cut -c 2-4 | tr '\n' ' ')" = "rw- rwx " ]
    run as_user bash -c 'cd "$1" && unset HOME XDG_STATE_HOME && dlrun submit hello.yaml &&
        dlrun schema >/dev/full' \
        - "$dir"
    message='standard output could not be written whole'
    [[ $output == *"not in your index"*"dlrun logs -f $dir/runs/hello-"*"$message"* &&
        $output != *fault* ]]
    run as_user bash -c 'cd "$1" && dlrun submit hello.yaml --json >/dev/full' - "$dir"
    [[ $status -eq 1 && $output \
        == *"could not be written whole, but the run hello-"*" is submitted, as job "[0-9]*"; "* ]]
    run as_user bash -c 'cd "$1" && dlrun submit hello.yaml >&-' - "$dir"
    [[ $status -eq 1 && $output \
        == *"could not be written whole, but the run hello-"*" is submitted, as job "[0-9]*"; "* ]]
    wait_until 60 no_jobs
}

@test "with a full, closed or unread stderr, submit writes its journal, and exit codes stay right" {
    for stream in '2>/dev/full' '2>&-' '2> >(true)'; do
        run as_user bash -c "cd '$dir' && dlrun status nope $stream"
        [[ $status -eq 6 && $output == "" ]]
        run as_user bash -c "cd '$dir' && dlrun submit hello.yaml --json $stream"
        [ "$status" -eq 0 ]
        [ "$(jq -r .job "$(jq -r .path <<<"$output")/submission.json")" \
            = "$(jq -r .job <<<"$output")" ]
        run as_user bash -c "cd '$dir' && dlrun run hello.yaml $stream"
        [[ $status -eq 0 && $output == *"rank "* ]]
    done
    wait_until 60 no_jobs
}

@test "output to a closed pipe ends silently with the exit code of SIGPIPE" {
    run as_user bash -c 'cd "$1" && { dlrun schema; echo "ended with $?" >&2; } | true' - "$dir"
    [ "$output" = "ended with 141" ]
}

@test "explain, schema, completion and man describe the installed dlrun on a login node" {
    run dl explain resources.gpus_per_node
    [[ $status -eq 0 && $output == *resources.gpus_per_node* ]]
    run dl explain --set resources.nodes=2 hello.yaml
    [[ $status -eq 0 && $output == *resources.nodes*2*--set* ]]
    dl schema >"$dir/schema.json"
    cmp "$dir/schema.json" "$DLRUN_TESTBED_PREFIX/share/dlrun/exp.schema.json"
    python3 - "$dir/schema.json" "$dir/hello.yaml" <<'PYTHON'
import json, sys
import jsonschema, yaml
with open(sys.argv[1], encoding="utf-8") as schema, open(sys.argv[2], encoding="utf-8") as spec:
    jsonschema.validate(yaml.safe_load(spec), json.load(schema))
PYTHON
    for shell in bash fish; do
        cmp <(dl completion "$shell") "$DLRUN_SOURCE_DIR/completions/dlrun.$shell"
    done
    cmp <(dl completion zsh) "$DLRUN_SOURCE_DIR/completions/_dlrun"
    cmp <(dl man) "$DLRUN_SOURCE_DIR/docs/dlrun.1"
    # Completes typed words like a shell that has sourced the script.
    completed=$(as_user bash -c 'cd "$1" && source <(dlrun completion bash) &&
        COMP_WORDS=(dlrun sub) COMP_CWORD=1 && _dlrun && echo "${COMPREPLY[*]}"' \
        - "$dir")
    [[ $completed == *submit* ]]
}
