#!/usr/bin/env bats
# Deleting runs: rm, prune and du.
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
  command: [bash, -c, 'until [[ -e go ]]; do sleep 0.1; done']
YAML
    done
    chown "$DLRUN_TESTBED_USER:" "$dir"/*.yaml
}

teardown() {
    if [[ -n ${socket:-} ]]; then tmux -S "$socket" kill-server || true; fi
    end_test
}

is_state() { [[ $(dl status "$1" --json | jq -r .state) == "$2" ]]; }
field() { dl status "$1" --json | jq -r "$2"; }

@test "rm deletes an ended run with its index entry, and leaves a pending or running run alone" {
    dl submit first.yaml
    wait_until 30 is_state first running
    dl submit second.yaml --set 'after.ok=[first]'
    for run in first second; do
        path=$(field "$run" .path)
        run dl rm "$run" --yes
        [ "$status" -eq 2 ]
        [[ $output == *"\`dlrun cancel $run-"* ]]
        [ -s "$path/submission.json" ]
    done
    as_user touch "$dir/go"
    wait_until 60 is_state second completed
    path=$(field first .path)
    second_path=$(field second .path)
    as_user ln -s "$second_path" "$path/link"
    # Without a terminal rm cannot ask.
    run as_user bash -c 'cd "$1" && dlrun rm first' - "$dir" </dev/null
    [ "$status" -eq 2 ]
    [[ $output == *"--yes"* ]]
    [ -d "$path" ]
    dl rm first --dry-run --json | jq -e '.runs[0] | .state == "completed" and .deleted == false'
    [ -d "$path" ]
    run dl rm first --yes
    [ "$status" -eq 0 ]
    [[ $output =~ deleted\ first-.*\(.*\ files,\ .*iB\) ]]
    [ ! -e "$path" ]
    [ -s "$second_path/events.jsonl" ]
    [[ $(dl ls) != *first-* ]]
    run dl status first
    [ "$status" -eq 6 ]
    [[ $output == *"was deleted on "*"it was completed"* ]]
    # Resubmitting the job that waited for the deleted run fails. The message says that the run was
    # deleted, and how to continue.
    run dl resubmit second
    [ "$status" -eq 2 ]
    [[ $output == *"after.ok: no run '$path': ${path##*/} was deleted on "* ]]
    [[ $output == *"dlrun submit $second_path/resolved.yaml --set after.ok=null"* ]]
    dl submit "$second_path/resolved.yaml" --set after.ok=null --watch
}

@test "the name of a deleted run does not select an older run, and on a terminal rm asks first" {
    as_user touch "$dir/go"
    dl run first.yaml
    older=$(field first .run)
    dl run first.yaml
    newer=$(field first .run)
    socket=$BATS_TEST_TMPDIR/tmux
    # run_rm_and_answer ANSWER: runs `dlrun rm first` on a terminal, answers the question, and waits
    # until the exit code is in the file `code`.
    run_rm_and_answer() {
        tmux -S "$socket" new-session -d -x 150 -y 30 "$testbed/as_user" bash -c \
            "cd '$dir' && dlrun rm first; echo code \$? >'$dir/code'
            until [ -e '$dir/seen' ]; do sleep 0.1; done"
        wait_until 20 question_is_shown
        tmux -S "$socket" send-keys "$1" Enter
        wait_until 20 test -s "$dir/code"
        shown=$(tmux -S "$socket" capture-pane -p)
        as_user touch "$dir/seen"
    }
    question_is_shown() {
        [[ $(tmux -S "$socket" capture-pane -p) == *"Delete 1 run ("*"[y/N]"* ]]
    }
    run_rm_and_answer n
    [ "$(cat "$dir/code")" = "code 130" ]
    [[ $shown == *"dlrun: nothing was deleted"* && $shown != *"error:"* ]]
    dl status "$newer"
    as_user rm "$dir/code"
    wait_until 20 eval '! tmux -S "$socket" has-session 2>/dev/null'
    as_user rm "$dir/seen"
    run_rm_and_answer y
    [ "$(cat "$dir/code")" = "code 0" ]
    run dl status first
    [ "$status" -eq 6 ]
    [[ $output == *"$newer was deleted on "*"give its id, $older"* ]]
    run dl cancel first
    [ "$status" -eq 6 ]
    dl status "$older"
}

@test "rm deletes the runs that ls has chosen by name and state" {
    as_user touch "$dir/go"
    dl run first.yaml
    dl run first.yaml
    dl run second.yaml
    mapfile -t runs < <(dl ls --all --runs "$dir/runs" --name 'fir*' --state completed --json |
        jq -r '.[].run')
    [ "${#runs[@]}" -eq 2 ]
    dl rm "${runs[@]}" --yes
    [[ $(dl ls --all --runs "$dir/runs") != *first-* ]]
    is_state second completed
}

@test "prune deletes old runs only, and --keep-checkpoints keeps checkpoints and the record" {
    as_user touch "$dir/go"
    dl run first.yaml
    # shellcheck disable=SC2016 # not expanded by the test
    local program='mkdir $DLRUN_RUN/ckpt; echo 1 >$DLRUN_RUN/ckpt/best; echo word'
    dl run second.yaml --set "launch.command=[bash, -c, \"$program\"]"
    old=$(field second .path)
    [[ $(dl du first | tail -1) == *"  -  "* ]] # The run has no checkpoints.
    [[ $(dl du second | tail -1) != *"  -  "* ]]
    run dl prune --older-than 1d --yes
    [ "$status" -eq 0 ]
    [[ $output == *"no run that ended more than 1d ago can be deleted"* ]]
    run dl prune --older-than 30 --yes
    [ "$status" -eq 2 ]
    [[ $output == *"30d"* ]]
    wait_until 10 eval '[[ $(dl prune --older-than 1s --runs $dir/runs --dry-run --json | jq ".runs | length") -ge 2 ]]'
    [ -d "$old" ]
    run dl prune --older-than 1s --runs "$dir/runs" --keep-checkpoints --dry-run
    [[ $output == *"would delete the diagnostic files (logs, traces, "*" of hung ranks) of "* ]]
    output=$(dl prune --older-than 1s --runs "$dir/runs" --keep-checkpoints --yes)
    [[ $output =~ "deleted the diagnostic files of second-"[^\ ]+" ("[0-9]+" file" ]]
    [ "$(cat "$old/ckpt/best")" = 1 ]
    is_state second completed
    [[ $(dl status second) != *"local.out"* && $(dl status second) != *"rank logs"* ]]
    run dl logs second --rank 0
    [ "$status" -eq 6 ]
    [[ $output == *"may have been deleted, for example by \`dlrun prune"* ]]
    [[ $(dl du second --json | jq -r '.[0].run') == "${old##*/}" ]]
    [[ $(dl du) == *"CHECKPOINTS"*"second-"* ]]
    dl prune --older-than 1s --runs "$dir/runs" --yes --json | jq -e '.freed_bytes > 0'
    [ ! -e "$old" ]
    [ -z "$(find "$dir/runs" -maxdepth 1 -name '*first-*' -o -name '*second-*')" ]
    # The copies of the agent's program beside the runs stay.
    compgen -G "$dir/runs/.agents-*"
}

@test "a sweep is deleted as a whole, and only if no point runs" {
    dl submit first.yaml --set 'sweep.parameters={environment.vars.P: [1, 2]}'
    path=$(field first .path)
    run dl rm first --yes
    [ "$status" -eq 2 ]
    as_user touch "$dir/go"
    wait_until 60 is_state first completed
    run dl rm first/1 --yes
    [ "$status" -eq 2 ]
    [[ $output == *"a sweep is deleted as a whole"* ]]
    dl rm first --yes
    [ ! -e "$path" ]
}
