#!/usr/bin/env bats
# `dlrun -H NAME COMMAND` over a real ssh with different login shells.
#
# timeout: 300

bats_require_minimum_version 1.5.0 # for run --separate-stderr
load helpers
load ssh

@test "every login shell passes every argument, and the output of its start files is dropped" {
    local shell word=$'a b"c$HOME`id`!!\\n\'*?{x,y}~;|&<>()#%\t[ü]'
    for shell in "${shells[@]}"; do
        use_shell "$shell"
        run --separate-stderr laptop -H "near-$shell" ls --json
        echo "$shell: $output $stderr"
        [ "$status" = 0 ]
        jq -e . <<<"$output"
        run --separate-stderr laptop -H "near-$shell" status "$word"
        remote_stderr=$stderr remote_status=$status
        run --separate-stderr dl status "$word"
        [ "$remote_status" = "$status" ]
        [ "$remote_stderr" = "$stderr" ]
    done
    use_shell bash
}

@test "with bash, tcsh and fish a job is checked, submitted, followed, resubmitted and cancelled" {
    local shell run
    make_code
    for shell in bash tcsh fish; do
        use_shell "$shell"
        host=near-$shell
        laptop -H "$host" check exp.yaml
        laptop -H "$host" render exp.yaml | grep -q '^#SBATCH'
        laptop -H "$host" explain exp.yaml | grep -q resources.nodes
        run=$(laptop -H "$host" submit exp.yaml --json | jq -r .run)
        laptop -H "$host" wait "$run"
        laptop -H "$host" logs "$run" | grep -q '^hello from the laptop$'
        laptop -H "$host" status "$run" --json | jq -e '.state == "completed"'
        laptop -H "$host" ls | grep -q "$run"
        laptop -H "$host" top --once "$run" | grep -q "$run"
        laptop -H "$host" report -o "page-$shell.html" "$run"
        grep -q "$run" "$dir/page-$shell.html"
        laptop -H "$host" diff "$run"
        laptop -H "$host" nodes
        laptop -H "$host" site list | grep -q generic
        run=$(laptop -H "$host" resubmit "$run" --json | jq -r .run)
        laptop -H "$host" cancel "$run" || laptop -H "$host" wait "$run"
    done
    use_shell bash
}

@test "submit, wait and status work with a host that is 40 ms away" {
    local run
    make_code
    run=$(laptop -H far submit exp.yaml --json | jq -r .run)
    laptop -H far wait "$run"
    laptop -H far status "$run" --json | jq -e '.state == "completed"'
}
