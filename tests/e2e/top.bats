#!/usr/bin/env bats
# `dlrun top`: the reported samples of the ranks, and the screen. Also `dlrun report`, and the
# output of the job's script in `dlrun status`.
# timeout: 240

load helpers

setup() {
    dir=$(fresh_dir)
    # Until the file `stop` exists, the first rank keeps one core busy and the second rank sleeps.
    cat >"$dir/busy.yaml" <<'YAML'
name: busy
resources: {nodes: 1, tasks_per_node: 2, time: 5m}
launch:
  preset: plain
  command: [bash, -c, 'while [[ ! -e $0/stop ]]; do if [[ $DLRUN_RANK = 0 ]]; then
    timeout 1 bash -c "while :; do :; done" || true; else sleep 1; fi; done', DIR]
YAML
    sed -i "s|DIR|$dir|" "$dir/busy.yaml"
    chown "$DLRUN_TESTBED_USER:" "$dir/busy.yaml"
}

teardown() {
    touch "$dir/stop"
    if [[ -n ${socket:-} ]]; then tmux -S "$socket" kill-server || true; fi
    end_test
}

rank_has() { dl top last --json | jq -e "[.rank_samples[] | select(.rank == $1) | $2] == [true]"; }
shows_power() { [[ $(dl top last) == *"GPU power   400 W"* ]]; }
shows() { tmux -S "$socket" capture-pane -p | grep -qE "$1"; }
type_line() { tmux -S "$socket" send-keys -l "$1" && tmux -S "$socket" send-keys Enter; }

@test "top shows the CPU use of a busy and of an idle rank, and nvidia-smi's GPU values" {
    mkdir "$dir/bin"
    printf '#!/bin/sh\necho "0, GPU-a, 93, 40000, 81559, 350.5"\n%s\n' \
        'echo "1, GPU-b, 7, 100, 81559, 49.5"' \
        >"$dir/bin/nvidia-smi"
    chmod -R a+rx "$dir/bin"
    as_user bash -c 'cd "$1" && PATH=$1/bin:$PATH exec dlrun run busy.yaml' - "$dir" \
        >"$BATS_TEST_TMPDIR/out" 2>&1 &
    runner=$!
    wait_until 60 rank_has 0 \
        '.cpu > 0.03 and .cpu < 1.5 and .rss_bytes > 100000 and .gpu_percent == 93'
    wait_until 30 rank_has 1 '.cpu < 0.03 and .gpu_percent == 7 and .gpu_used_bytes == 104857600'
    wait_until 30 shows_power
    run dl top last
    [ "$status" -eq 0 ]
    [[ $output == *running*"RANK  NODE"*"93 %"*joined* ]]
    [[ $output != *$'\033'* ]]
    # A dumb terminal gets lines instead of a screen.
    output=$(as_user env TERM=dumb timeout 30 script -qec 'dlrun top last' /dev/null </dev/null)
    [[ $output == *running*"RANK  NODE"* && $output != *$'\033'* ]]
    touch "$dir/stop"
    wait "$runner"
    run dl top last # This shows the state at the end.
    [[ $output == *completed*"RANK  NODE"*"93 %"*"all 2 ranks ended with 0"* ]]
}

@test "top follows a job to its end, fits the terminal, and restores the terminal's settings" {
    dl submit busy.yaml --set resources.begin=now+1hour
    id=$(dl status last --json | jq -r .job)
    socket=$BATS_TEST_TMPDIR/tmux
    tmux -u -S "$socket" -f /dev/null new-session -d -x 100 -y 30 "$testbed/as_user bash --norc"
    type_line "cd $dir; stty -g >before; dlrun top last; stty -g >after; echo left with \$?"
    wait_until 30 shows "busy-.* pending +job $id"
    wait_until 30 shows 'BeginTime'
    scontrol update JobId="$id" StartTime=now
    wait_until 60 shows "busy-.* running +job $id"
    wait_until 60 shows 'RANK  NODE +CPU +MEMORY'
    wait_until 60 shows '^ +1  n[0-9] '
    tmux -S "$socket" resize-window -x 30 -y 12
    wait_until 30 shows '^ busy-[-0-9a-f]*  r[^u]*$'
    tmux -S "$socket" resize-window -x 100 -y 30
    tmux -S "$socket" send-keys C-z # This suspends top, and the shell's screen returns.
    wait_until 30 shows 'Stopped'
    type_line fg
    wait_until 30 shows 'RANK  NODE'
    touch "$dir/stop"
    wait_until 60 shows "busy-.* completed +job $id"
    tmux -S "$socket" send-keys q
    wait_until 30 shows '^left with 0'
    type_line "dlrun top last --once"
    wait_until 30 shows 'all 2 ranks ended with 0'
    cmp "$dir/before" "$dir/after"
}

@test "if INT, TERM or SEGV ends top, the screen and the terminal's settings are as before" {
    dl submit busy.yaml
    socket=$BATS_TEST_TMPDIR/tmux
    tmux -u -S "$socket" -f /dev/null new-session -d -x 100 -y 30 "$testbed/as_user bash --norc"
    for signal in INT TERM SEGV; do
        line="cd $dir; stty -g >before; bash -c 'echo \$\$ >pid; exec dlrun top last';"
        line+=" echo \"\$? \$(cmp - before <<<\"\$(stty -g)\" && echo same)\" >after-$signal"
        type_line "$line"
        wait_until 60 shows "RANK  NODE"
        kill -"$signal" "$(cat "$dir/pid")"
        wait_until 30 grep -q same "$dir/after-$signal"
        ! shows "RANK  NODE" || false
    done
    [ "$(cut -d' ' -f1 "$dir/after-INT") $(cut -d' ' -f1 "$dir/after-TERM") $(cut -d' ' \
        -f1 "$dir/after-SEGV")" = "130 130 139" ]
}

@test "report writes a page of one run into its directory, and a page that compares several runs" {
    cat >"$dir/digits.yaml" <<'YAML'
name: digits
resources: {tasks_per_node: 2, time: 5m}
train: {data: {dataset: digits}, model: mlp, epochs: 3}
YAML
    chown "$DLRUN_TESTBED_USER:" "$dir/digits.yaml"
    dl run digits.yaml >/dev/null 2>&1
    run dl report last
    [ "$status" -eq 0 ]
    [ "$output" = "$(dl status last --json | jq -r .path)/report.html" ]
    [ "$(stat -c %a "$output")" = 600 ]
    grep -q '<span>test accuracy</span>' "$output"
    grep -q '<figcaption><b>Loss</b>' "$output"
    diff "$output" <(dl report last -o -) | grep '^[<>]' >"$BATS_TEST_TMPDIR/differs" || true
    # Only the lines with the time of creation differ.
    [ "$(grep -vc "$(date -u +%Y-)" "$BATS_TEST_TMPDIR/differs" || true)" -eq 0 ]
    dl run digits.yaml --set train.epochs=4 >/dev/null 2>&1
    ids=$(dl ls --json | jq -r '.[0].run, .[-1].run')
    # shellcheck disable=SC2086 # splits the words
    run dl report $ids -o both.html
    [ "$status" -eq 0 ]
    grep -q 'train.epochs' "$dir/both.html"
    [ "$(grep -c '<polyline' "$dir/both.html")" -ge 4 ]
    run dl report no-such-run
    [ "$status" -eq 6 ]
}

@test "if no rank was started, status shows the last output of the job's script" {
    run dl submit busy.yaml --watch --set 'environment.setup=echo no such module: X >&2; false'
    [ "$status" -eq 5 ]
    [[ $(dl status last) == *"output    no such module: X"* ]]
    dl status last --json | jq -e '.last_words == ["no such module: X"]'
}
