#!/usr/bin/env bats
# `dlrun run`, which runs a spec on this machine without Slurm. Also `dlrun interactive`, `dlrun
# attach`, and the questions of `dlrun init`.
# timeout: 300

load helpers

setup() {
    dir=$(fresh_dir)
    cat >"$dir/hello.yaml" <<'YAML'
name: hello
resources: {nodes: 2, tasks_per_node: 2, time: 5m}
environment:
  vars: {GREETING: "it's; $(id) \"here\""}
  setup: echo set up on $(hostname)
launch:
  preset: plain
  command: [bash, -c, 'echo "rank $DLRUN_RANK of $DLRUN_WORLD_SIZE: $GREETING"']
YAML
    chown "$DLRUN_TESTBED_USER:" "$dir/hello.yaml"
}

teardown() {
    if [[ -n ${socket:-} ]]; then tmux -S "$socket" kill-server || true; fi
    end_test
}

field() { dl status last --json | jq -r "$1"; }

@test "dlrun run starts the ranks here in the spec's environment, and records the run as usual" {
    run dl run hello.yaml
    [ "$status" -eq 0 ]
    [[ $output == *"set up on"* ]]
    [[ $output == *"rank 0 of 2: it's; \$(id) \"here\""* && $output == *"rank 1 of 2: "* ]]
    [[ $output == *"2 of the 4 ranks of the spec run here"* ]]
    [[ $output == *"--set resources.nodes=1 --set resources.tasks_per_node=4\`"* ]]
    [ "$(field .state)" = completed ]
    [[ $(dl logs --rank 1 last) == "rank 1 of 2: "* ]]
    # Without RUN, dlrun uses the newest run. The lines of several ranks are labelled.
    for ranks in all 0,1 0-1; do
        [[ $(dl logs --rank "$ranks") == "rank 0: rank 0 of 2: "*$'\n'"rank 1: rank 1 of 2: "* ]]
    done
    [[ $(dl status) == *completed* ]]
    [[ $(dl wait) == *completed* ]]
    [[ $(dl ls --state completed --newer-than 1h --name 'hel*') == *hello-* ]]
    [[ $(dl ls --state failed --name nosuch 2>&1) == *"no run fits these filters"* ]]
    [[ $(dl ls) == *here*completed* ]]
}

@test "the lines of several ranks do not mix, even if a program writes a line in two parts" {
    # shellcheck disable=SC2016 # not expanded by the test
    local program='for i in {1..300}; do printf "rank $DLRUN_RANK "; printf "writes\n"; done'
    dl run hello.yaml --set resources.tasks_per_node=4 --set 'environment.setup=null' \
        --set "launch.command=[bash, -c, '$program']" >"$BATS_TEST_TMPDIR/out"
    local expected="" rank
    for rank in 0 1 2 3; do expected+="300 rank $rank writes;"; done
    run bash -c 'grep "^rank" "$1" | sort | uniq -c | xargs printf "%s %s %s %s;"' - \
        "$BATS_TEST_TMPDIR/out"
    echo "$output"
    [ "$output" = "$expected" ]
}

@test "dlrun run says which rank failed, and exits with 5" {
    # shellcheck disable=SC2016 # not expanded by the test
    local program='[[ $DLRUN_RANK != 1 ]] || { echo no such data: /nowhere >&2; exit 7; };'
    program+=' trap : TERM; while :; do sleep 1; done'
    run dl run hello.yaml --set "launch.command=[bash, -c, \"$program\"]"
    [ "$status" -eq 5 ]
    [[ $output == *"rank 1"*"code 7"* ]]
    [ "$(field .code)" -eq 7 ]
    [[ $(dl status last) == *"output    no such data: /nowhere"* ]]
}

@test "run --json prints one JSON object to stdout, and the ranks' output to stderr" {
    dl run hello.yaml --json 2>"$BATS_TEST_TMPDIR/err" |
        jq -e '.state == "completed" and .ranks == 2'
    grep -q 'rank 1 of 2: ' "$BATS_TEST_TMPDIR/err"
}

@test "a setup line that fails is reported, and no rank is started" {
    run dl run hello.yaml --set 'environment.setup=false'
    [ "$status" -eq 5 ]
    [[ $output == *"the ranks were not started"* ]]
    [ "$(field .state) $(field .code)" = "failed 1" ]
    [[ $(field .detail) == "the job script ended with code 1; the ranks were not started" ]]
}

@test "Ctrl-C ends a run and all its processes, with exit code 130" {
    local program="echo \$\$ >>$dir/pids; trap : TERM; while :; do sleep 0.2; done"
    as_user bash -c 'cd "$1" && echo $$ >pid && exec dlrun run hello.yaml --set "$2"' \
        - "$dir" "launch.command=[bash, -c, '$program']" \
        >"$BATS_TEST_TMPDIR/out" 2>&1 &
    two_ranks_are_up() { [[ $(wc -l <"$dir/pids") -eq 2 ]]; }
    wait_until 30 two_ranks_are_up
    kill -INT "$(cat "$dir/pid")"
    code=0
    wait $! || code=$?
    [ "$code" -eq 130 ]
    while read -r pid; do [ ! -e "/proc/$pid" ]; done <"$dir/pids"
    [ "$(field .state)" = cancelled ]
}

@test "after lead is killed, run and status report the same end, which is recorded once" {
    dl run hello.yaml \
        --set "launch.command=[bash, -c, 'touch $dir/up; while :; do sleep 0.2; done']" \
        >"$BATS_TEST_TMPDIR/out" 2>&1 &
    runner=$!
    wait_until 30 test -e "$dir/up"
    kill -KILL "$(field .job | cut -d: -f2)"
    code=0
    wait "$runner" || code=$?
    [ "$code" -eq 5 ]
    grep -q 'failed: lead was ended by SIGKILL without a report' "$BATS_TEST_TMPDIR/out"
    [ "$(field '[.state, .detail, (.code | tostring)] | join("|")')" \
        = "failed|lead was ended by SIGKILL without a report|137" ]
    [[ $(grep -c '"event":"ended"' "$(field .path)/events.jsonl") == 1 ]]
}

@test "cancel ends a run on this machine from another shell" {
    dl run hello.yaml \
        --set "launch.command=[bash, -c, 'touch $dir/up; while :; do sleep 0.2; done']" \
        >"$BATS_TEST_TMPDIR/out" 2>&1 &
    runner=$!
    wait_until 30 test -e "$dir/up"
    [ "$(field .state)" = running ]
    dl cancel last
    code=0
    wait "$runner" || code=$?
    [ "$code" -eq 5 ]
    [ "$(field .state)" = cancelled ]
    [ "$(field .detail)" = "it was cancelled with \`dlrun cancel\`" ]
}

@test "dlrun interactive runs a command in the spec's environment, frees the nodes, and checks options" {
    # shellcheck disable=SC2016 # not expanded by the test
    local words='$SLURM_JOB_NUM_NODES nodes, CPUs: $SLURM_CPUS_PER_TASK: $GREETING'
    run dl interactive hello.yaml \
        -- bash -c "echo \"on \$(hostname), job of $words\"" </dev/null
    [ "$status" -eq 0 ]
    [[ $output == *"set up on n1"* ]]
    [[ $output == *"on n1, job of 2 nodes, CPUs: 2: it's; \$(id) \"here\""* ]]
    wait_until 10 no_jobs
    run dl interactive hello.yaml -- bash -c 'exit 7' </dev/null
    [ "$status" -eq 7 ]
    run dl interactive hello.yaml --set resources.partition=nope -- true </dev/null
    [ "$status" -eq 3 ]
    run dl interactive hello.yaml </dev/null
    [ "$status" -eq 2 ]
    for option in no-shell=true no-sh=true mial-user=me; do
        run dl interactive hello.yaml --set "slurm.$option" -- true </dev/null
        [ "$status" -eq 2 ]
        [[ $output == *"--set slurm.$option"*"error: slurm.${option%=*}: "* &&
            $output != *"salloc: "* ]]
    done
    [[ $output == *"the salloc here has no option --mial-user; did you mean 'mail-user'?"* ]]
    wait_until 10 no_jobs
    [ -z "$(ls "$dir"/runs/.interactive-*)" ]
    # resources.gpus counts the GPUs of all nodes. The number on the session's node is unknown.
    run dl interactive hello.yaml --set resources.gpus=4 --set resources.nodes=2 -- true
    [[ $status == 2 &&
        $output == *"resources.gpus are counted over all nodes"*resources.gpus_per_node=N* ]]
}

@test "SIGTERM, Ctrl-C or SIGKILL ends an interactive session and its allocation" {
    start_session() {
        as_user bash -c 'cd "$1" && echo $$ >pid && shift &&
            exec dlrun interactive hello.yaml "$@"' \
            - "$dir" "$@" </dev/null &
        session=$!
    }
    check_end() {
        code=0
        wait "$session" || code=$?
        [[ $code == "$1" ]]
        wait_until 20 no_jobs
    }
    is_queued() { [[ $(squeue -h -u "$DLRUN_TESTBED_USER" -o %T) == "$1" ]]; }
    for signal in TERM INT; do
        start_session --set resources.begin=now+1hour -- true
        wait_until 30 is_queued PENDING
        kill -"$signal" "$(cat "$dir/pid")"
        check_end 130
    done
    start_session -- bash -c 'touch began; exec sleep 1000'
    wait_until 30 test -e "$dir/began"
    kill -TERM "$(cat "$dir/pid")"
    check_end 130
    rm "$dir/began"
    start_session -- bash -c 'touch began; exec sleep 1000'
    wait_until 30 test -e "$dir/began"
    kill -KILL "$(cat "$dir/pid")"
    check_end 137
}

open_terminal() {
    tmux -S "$socket" -f /dev/null new-session -d -x 120 -y 40 "$testbed/as_user bash --norc"
}
type_line() { tmux -S "$socket" send-keys -l "$1" && tmux -S "$socket" send-keys Enter; }
shows() { tmux -S "$socket" capture-pane -p | grep -q "$1"; }

@test "init asks on a terminal, repeats a question after a wrong answer, and writes a valid spec" {
    socket=$BATS_TEST_TMPDIR/tmux
    open_terminal
    type_line "cd $dir && dlrun init --site testbed"
    wait_until 30 shows '^Name of the experiment \[hello\]:'
    type_line mine
    type_line batch
    wait_until 10 shows '^Nodes \[1\]:'
    type_line many
    wait_until 10 shows '^  .*many'
    type_line 2-4
    wait_until 10 shows "^  '2-4' is a range"
    for answer in 2 1 10m '' '' 'echo "asked for"'; do type_line "$answer"; done
    wait_until 10 shows 'wrote mine.yaml'
    dl check mine.yaml
    [ "$(dl render mine.yaml |
        grep -cE '^#SBATCH --(job-name=mine|nodes=2|partition=batch|time=00:10:00) ')" -eq 4 ]
}

@test "interactive under tmux has a prompt on the first node, and its exit frees the allocation" {
    socket=$BATS_TEST_TMPDIR/tmux
    open_terminal
    type_line "cd $dir && dlrun interactive hello.yaml"
    wait_until 30 shows 'set up on n1'
    type_line 'echo "$(hostname): $GREETING" $(stty size)'
    wait_until 10 shows "^n1: it's; \$(id) \"here\" 40 120"
    # The test waits for the output of this line. Otherwise Ctrl-C could arrive before the program
    # has started.
    type_line 'bash -c "echo \$((6 * 7)) up; exec sleep 1000"'
    wait_until 10 shows '^42 up'
    tmux -S "$socket" send-keys C-c
    type_line 'echo still on $(hostname)'
    wait_until 10 shows '^still on n1'
    type_line 'exit'
    wait_until 20 no_jobs
    wait_until 10 shows 'Relinquishing'
}

@test "the installed tree works after it is moved" {
    as_user cp -a "$DLRUN_TESTBED_PREFIX" "$dir/moved"
    run as_user bash -c 'cd "$1" &&
        exec moved/bin/dlrun run moved/share/dlrun/examples/digits.yaml --set train.epochs=1 \
            --set resources.tasks_per_node=2' \
        - "$dir"
    [ "$status" -eq 0 ]
    [[ $output == *"equal on 2 ranks"* ]]
    [[ $(field .result.parameters) =~ ^[0-9a-f]{16}$ ]]
}

has_one_step() { (($(squeue -h -s -j "$(field .job)" -o %i | grep -cv -e batch -e extern) == 1)); }
start_attached() {
    rm -f "$dir/began"
    as_user bash -c 'cd "$1" && echo $$ >attach-pid &&
        exec dlrun attach last -- bash -c "touch began; exec sleep 1000"' \
        - "$dir" </dev/null &
    attached=$!
    wait_until 30 test -e "$dir/began"
}

@test "attach runs a command beside a job's ranks on a chosen node, and the job continues" {
    is_running() { [[ $(field .state) == running ]]; }
    run dl submit hello.yaml \
        --set "launch.command=[bash, -c, 'until [[ -e $dir/go ]]; do sleep 0.1; done']"
    wait_until 30 is_running
    # shellcheck disable=SC2016 # not expanded by the test
    local words='$(pgrep -fc "dlrun-agent rank") agents, $SLURM_CPUS_PER_TASK CPUs: $GREETING'
    run dl attach last \
        -- bash -c "echo \"on \$(hostname), job \$SLURM_JOB_ID, $words\"" </dev/null
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"on n1, job $(field .job), "[1-9]*" agents, 2 CPUs: it's; \$(id) \"here\""* ]]
    [[ $(dl attach last -- pwd </dev/null) == *$'\n'"$dir" ]]
    run dl attach last --node n2 -- hostname </dev/null
    [[ $output == *n2 ]]
    run dl attach last -- bash -c 'exit 7' </dev/null
    [ "$status" -eq 7 ] # the exit code of the command itself
    run dl attach nosuch </dev/null
    [ "$status" -eq 6 ]
    # Ctrl-C ends the command on the node. If SIGKILL ends attach, its files stay until the next
    # attach removes them.
    start_attached
    kill -INT "$(cat "$dir/attach-pid")"
    code=0
    wait "$attached" || code=$?
    [ "$code" -eq 130 ]
    wait_until 20 has_one_step
    start_attached
    kill -KILL "$(cat "$dir/attach-pid")"
    wait "$attached" || true
    wait_until 20 has_one_step
    [[ -n $(ls "$dir"/runs/.interactive-*) ]]
    dl attach last -- true </dev/null
    [[ -z $(ls "$dir"/runs/.interactive-*) ]]
    run dl attach last --node n4 -- hostname </dev/null
    [ "$status" -eq 2 ]
    [[ $output == *"the job runs on n[1-2]"* ]]
    run dl attach last </dev/null
    [ "$status" -eq 2 ]
    [[ $output == *"needs a terminal"* ]]
    socket=$BATS_TEST_TMPDIR/tmux
    open_terminal
    type_line "cd $dir && dlrun attach last --node n2"
    wait_until 30 shows 'set up on n2'
    type_line 'echo "$(hostname): $GREETING"'
    wait_until 10 shows "^n2: it's; \$(id) \"here\""
    type_line exit
    attach_has_ended() { [[ -z $(ls "$dir"/runs/.interactive-*) ]]; }
    wait_until 10 attach_has_ended
    is_running
    as_user touch "$dir/go"
    dl wait last
    run dl attach last -- hostname </dev/null
    [ "$status" -eq 2 ]
    [[ $output == *"is completed"* ]]
}

@test "with checkpoint.resume, a new run of the trainer continues from another run's checkpoint" {
    as_user cp "$(user_source)/configs/examples/digits.yaml" "$dir"
    local keys=(--set checkpoint.dir="$dir/ckpt" --set train.data.train_samples=256)
    dl run digits.yaml "${keys[@]}" --set train.epochs=1
    run dl run digits.yaml "${keys[@]}" --set train.epochs=2
    [ "$status" -eq 5 ]
    [[ $output == *"checkpoints of another run"*"checkpoint.resume: true"* ]]
    run dl run digits.yaml "${keys[@]}" --set train.epochs=2 --set checkpoint.resume=true
    [ "$status" -eq 0 ]
    [[ $output == *"resumed from $dir/ckpt at step "* ]]
}
