#!/usr/bin/env bats
# Each submission runs exactly once. sbatch's reply is lost, or sbatch or dlrun is killed before,
# while or after the controller accepts the job. The user looks at the run's status and submits
# again if it says that nothing was submitted.
#
# The first test makes 50 submissions. DLRUN_TEST_SUBMISSIONS sets another number.
# timeout: 1800

load helpers

setup() {
    dir=$(fresh_dir)
    as_user mkdir "$dir/bin"
    # A wrapper of sbatch. The word in the file `fault` selects what the wrapper does: it kills
    # itself or dlrun (its parent process, PPID) at a certain moment, or loses the reply.
    as_user tee "$dir/bin/sbatch" >/dev/null <<SH
#!/bin/bash
fault=\$(<$dir/fault)
case \$fault in
sbatch-before) kill -KILL \$\$ ;;
dlrun-before) kill -KILL \$PPID \$\$ ;;
dlrun-while) kill -KILL \$PPID ; sleep 0.2 ;;
esac
answer=\$($slurm_bin/sbatch "\$@")
code=\$?
case \$fault in
sbatch-after) kill -KILL \$\$ ;;
dlrun-after) kill -KILL \$PPID ;;
reply-lost)
    error='Batch job submission failed: Socket timed out on send/recv operation'
    echo "sbatch: error: \$error" >&2 && exit 1
    ;;
esac
echo "\$answer"
exit \$code
SH
    as_user chmod 755 "$dir/bin/sbatch"
    as_user tee "$dir/once.yaml" >/dev/null <<YAML
resources: {nodes: 1, tasks_per_node: 1, time: 5m}
launch: {preset: plain, command: [sh, -c, 'echo "\$0" >>$dir/executed', unset]}
YAML
}

faults=(none sbatch-before sbatch-after dlrun-before dlrun-while dlrun-after reply-lost)

# submit_until_done NUMBER: submits once-NUMBER, and submits it again while the status says that it
# was not submitted. Ignores the output and the exit code of `dlrun submit`.
submit_until_done() {
    local state
    until
        # The wrapper kills dlrun or sbatch at a chosen moment. In addition, timeout kills one dlrun
        # in eight at a random moment.
        as_user env PATH="$dir/bin:$(as_user printenv PATH)" timeout -s KILL "$kill_after_s" \
            dlrun submit "$dir/once.yaml" --set "name=once-$1" \
            --set "launch.command=[sh, -c, 'echo \$0 >>$dir/executed', '$1']" &>/dev/null
        # A submission that is under way ends soon.
        while state=$(dl status "once-$1" --json 2>/dev/null |
            jq -r '.state + " " + (.detail // "")'); [[ $state == *"being submitted"* ]]; do
            sleep 0.1
        done
        [[ -n $state && $state != not_submitted* ]]
    do
        echo none >"$dir/fault"
        kill_after_s=60
        ((++repetitions))
    done
}

@test "a submission runs exactly once, even if its reply is lost or sbatch or dlrun is killed" {
    local wanted=${DLRUN_TEST_SUBMISSIONS:-50} repetitions=0 i kill_after_s
    RANDOM=20
    for ((i = 1; i <= wanted; i++)); do
        kill_after_s=60
        as_user sh -c "echo ${faults[RANDOM % ${#faults[@]}]} >'$dir/fault'"
        ((RANDOM % 8)) || kill_after_s=0.0$((RANDOM % 50 + 5))
        submit_until_done "$i"
    done
    echo "$wanted submissions, repeated $repetitions times because the status was not_submitted"
    ((repetitions > 0))
    wait_until $((60 + wanted)) no_jobs
    [ "$(sort -n "$dir/executed")" = "$(seq "$wanted")" ]
}

@test "if ten of 100 parallel submissions are killed, no run is recorded or executed twice" {
    as_user tee "$dir/crowd" >/dev/null <<'SH'
#!/bin/bash
for ((i = 1; i <= 100; i++)); do
    call=(dlrun submit once.yaml --set "name=crowd-$i"
        --set "launch.command=[sh, -c, 'echo \$0 >>$PWD/executed', '$i']")
    ((i % 10)) || call=(timeout -s KILL 0.0$((i / 2)) "${call[@]}") # after 10 to 50 ms
    "${call[@]}" &>"out-$i" &
done
wait
SH
    as_user bash -c 'cd "$1" && exec bash crowd' - "$dir"
    wait_until 120 no_jobs
    dl ls --all --json | jq --arg dir "$dir/" 'map(select(.path // "" | startswith($dir)))' \
        >"$BATS_TEST_TMPDIR/ls"
    # Each call that was not killed has reported one job. No run exists twice, and every job belongs
    # to one run.
    jq -e '[.[].name] | length == (unique | length)' "$BATS_TEST_TMPDIR/ls"
    jq -e '[.[].job | select(. != null and . != "")] | length == (unique | length)' \
        "$BATS_TEST_TMPDIR/ls"
    for i in {1..100}; do
        ((i % 10 == 0)) || grep -q 'as job [0-9]' "$dir/out-$i" || { cat "$dir/out-$i" && false; }
    done
    [ "$(jq -r '.[] | select(.state == "completed") | .name' "$BATS_TEST_TMPDIR/ls" |
        sed 's/crowd-//' | sort -n)" = "$(sort -n "$dir/executed")" ]
    [ "$(sort -n "$dir/executed" | uniq -d)" = "" ]
}
