#!/usr/bin/env bats
# Submissions over ssh whose connection is cut. tests/e2e/many_ssh_cuts cuts hundreds of them.
#
# timeout: 300

load helpers
load ssh

@test "if a submission is cut at a random moment and repeated, it queues one job" {
    make_code
    laptop -H near check exp.yaml
    cut_submissions 12 17
    ((cuts > 3))
    each_job_ran_once 12
}

# sweep.yaml has two points. Each of them writes the number of its submission into `executed`.
@test "if a sweep is cut at a random moment and repeated, it queues each point once" {
    local i cuts=0
    make_code
    laptop -H near check exp.yaml
    RANDOM=5
    for i in 101 102 103 104; do
        submit_cut "$i" $((RANDOM % 700 + 1)) sweep.yaml || { cat "$dir/out-$i" && false; }
    done
    wait_until 60 no_jobs
    [ "$(sort -n "$dir/executed" | xargs)" = "101 101 102 102 103 103 104 104" ]
}

@test "the same command continues a submission whose dlrun was killed before the answer" {
    make_code
    as_user mkdir "$dir/bin"
    as_user tee "$dir/bin/dlrun" >/dev/null <<'SH'
#!/bin/sh
exec sleep 30
SH
    as_user chmod +x "$dir/bin/dlrun"
    write_host_file near "dlrun: $dir/bin/dlrun"
    cut_after 2000 -H near submit exp.yaml || [ $? = 137 ]
    write_host_file near
    run laptop host check near
    echo "$output"
    [[ $output == *'submission without an answer: dlrun submit exp.yaml'* ]]
    run laptop -H near submit exp.yaml </dev/null
    echo "$output"
    [ "$status" = 0 ]
    [[ $output == *'continues that submission'* ]]
    run laptop host check near
    [[ $output != *'without an answer'* ]]
    run laptop -H near submit exp.yaml </dev/null
    [[ $output != *'continues that submission'* ]]
}
