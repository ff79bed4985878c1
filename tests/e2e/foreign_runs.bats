#!/usr/bin/env bats
# Runs, specs, repositories and folders of another user. dlrun may read them, but they cannot make
# dlrun act for their owner.
# docs/security.md lists the promises.
# timeout: 900

load helpers
load foreign

setup_file() {
    make_attacker
    export attacker
}

setup() {
    dir=$(fresh_dir)
    as_user bash -c 'umask 077 && cd "$1" && echo secretword >token &&
        echo "BEGIN PRIVATE KEY" >key' \
        - "$dir"
    cat >"$dir/hello.yaml" <<'YAML'
name: mnist
resources: {nodes: 1, tasks_per_node: 1, time: 5m}
launch: {preset: plain, command: [sleep, 300]}
YAML
    chown "$DLRUN_TESTBED_USER:" "$dir/hello.yaml"
    attacker_dir=$(fresh_attacker_dir)
    start_listener
    server=http://127.0.0.1:$listener_port
}

teardown() {
    stop_listener
    [[ -z ${victim_process-} ]] || kill "$victim_process" 2>/dev/null || true
    end_test
}

index_entries() { as_user bash -c 'ls "$HOME/.local/state/dlrun/runs" 2>/dev/null' || true; }
# Prints the victim's pending and running jobs. Slurm may start a job at any time, so the state is
# left out.
jobs_of_victim() { squeue -h -u "$DLRUN_TESTBED_USER" -t pending,running -o '%i' | sort; }

# check_no_effect RUN: checks that the commands on the hostile directory RUN had no effect. Before
# the commands, the caller has set `before` to the hash of RUN and `jobs` to the victim's jobs
check_no_effect() {
    [ -z "$(requests)" ] || { requests >&2 && return 1; }
    [ "$(hash_of "$1")" = "$before" ] || { echo "$1 was written" >&2 && return 1; }
    [[ $(index_entries) != *"${1##*/}"* ]] || { echo "$1 is in the index" >&2 && return 1; }
    [ "$(jobs_of_victim)" = "$jobs" ] ||
        { echo "the victim's jobs were: $jobs; they are: $(jobs_of_victim)" >&2 && return 1; }
    [[ $transcript != *"PRIVATE KEY"* && $transcript != *secretword* ]] ||
        { printf '%s' "$transcript" >&2 && return 1; }
    [ -z "$(as_user bash -c 'ls "$HOME"/canary-* 2>/dev/null')" ]
}

# output_of WORDS: prints the dlrun commands that begin with these words, and their output
output_of() { sed -n "/^[$] dlrun $1 /,/^(code /p" <<<"$transcript"; }

# try_commands_on RUN: runs every command on RUN, and checks that none had an effect
try_commands_on() {
    before=$(hash_of "$1") jobs=$(jobs_of_victim)
    run_commands_on "$1"
    check_no_effect "$1"
}

@test "a foreign run with a server and a token file: nothing is sent, and the owner is shown" {
    for url in "$server" "unix:$listener_socket"; do
        for state in intent submitted; do
            hostile=$attacker_dir/mnist-20990101-000000-00${state:0:1}${url:0:1}
            write_hostile_run "$hostile"
            write_hostile_file "$hostile/submission.json" <<JSON
{"token":"$(printf 'b%.0s' {1..32})","state":"$state","cluster":"","job":"$([[ $state == intent ]] || echo 42)","server":{"url":"$url","token_file":"$dir/token"},"argv":[],"time":""}
JSON
            try_commands_on "$hostile"
            [[ $transcript \
                == *"of user $attacker; shown from its files alone, Slurm is not asked"* ]]
            for words in attach forward ssh-config cancel resubmit rm; do
                [[ $(output_of "$words") == *"belongs to user $attacker, and only its owner"* ]]
            done
            [[ $(output_of "ls --runs") == *"of user $attacker"* ]]
        done
    done
    # For a copy that belongs to the victim, dlrun contacts only servers of the configuration.
    as_user cp -r "$hostile" "$dir/copied"
    for words in status top report cancel wait; do
        run timeout 4 "$testbed/as_user" bash -c 'cd "$1" && exec dlrun "$2" ./copied' - "$dir" \
            "$words"
    done
    run dl status ./copied
    [[ $output == *"your configuration does not list it"* ]]
    [ -z "$(requests)" ]
}

@test "a job id that is an option, a list, a path or a pattern reaches no Slurm command" {
    mkdir -p "$dir/bin" && for name in scancel squeue sacct scontrol srun sbatch; do
        printf '#!/bin/sh\necho "%s $*" >>%s\nexit 1\n' "$name" "$dir/calls" >"$dir/bin/$name" &&
            chmod 755 "$dir/bin/$name"
    done
    touch "$dir/calls" && chmod 666 "$dir/calls"
    for job in --me "-u $DLRUN_TESTBED_USER" 1,2 '1;2' ../1 '*'; do
        hostile=$attacker_dir/job-20990101-000000-0001
        write_hostile_run "$hostile"
        for file in submission.json claim; do
            printf '{"token":"t","state":"submitted","cluster":"","job":"%s","log":""}' "$job" |
                write_hostile_file "$hostile/$file"
        done
        try_commands_on "$hostile"
        # The victim's own copy counts as a damaged run.
        as_user cp -r "$hostile" "$dir/copied"
        for words in status cancel resubmit attach forward ssh-config; do
            local arguments=()
            case $words in
            attach) arguments=(-- true) ;;
            forward) arguments=(8888) ;;
            esac
            run as_user bash -c 'cd "$1" && PATH=$1/bin:$PATH exec dlrun "$2" ./copied "${@:3}"' \
                - "$dir" "$words" "${arguments[@]}"
            [ "$status" -ne 0 ]
            [[ $output == *"is damaged"* ]]
        done
        rm -rf "$dir/copied"
    done
    [ ! -s "$dir/calls" ]
}

@test "if the job of a foreign run is a process of the user, no command ends that process" {
    as_user bash -c 'echo $$ >"$1/pid.new" && mv "$1/pid.new" "$1/pid" && exec sleep 600' - "$dir" \
        3>&- &
    wait_until 20 test -s "$dir/pid"
    victim_process=$(<"$dir/pid")
    id=$(hostname):$victim_process:$(awk '{ print $22 }' "/proc/$victim_process/stat")
    hostile=$attacker_dir/here-20990101-000000-0001
    write_hostile_run "$hostile"
    write_hostile_file "$hostile/submission.json" <<JSON
{"token":"$(printf 'c%.0s' {1..32})","state":"submitted","cluster":"local","job":"$id","argv":[],"time":""}
JSON
    try_commands_on "$hostile"
    # A copy that belongs to the victim has no effect, either: the process has another token.
    as_user cp -r "$hostile" "$dir/copied"
    run dl cancel ./copied
    [ "$status" -eq 6 ]
    [[ $output == *"left alone"* ]]
    kill -0 "$victim_process"
}

@test "a name, prefix, job id or last finds the user's run, not a foreign run of the same name" {
    user_run=$(dl submit hello.yaml --runs "$dir/runs" --json | jq -r .run)
    job=$(dl status "$user_run" --json | jq -r .job)
    hostile=$attacker_dir/mnist-20990101-000000-0001
    write_hostile_run "$hostile"
    printf '{"token":"t","state":"submitted","cluster":"","job":"%s"}' "$job" |
        write_hostile_file "$hostile/submission.json"
    as_attacker touch -d 2099-01-01 "$hostile"/* "$hostile"
    try_commands_on "$hostile"
    [[ $transcript == *"$hostile"* || $transcript == *"${hostile##*/}"* ]]
    for name in mnist last "$job" "${user_run%??}"; do
        [ "$(dl status "$name" --json | jq -r .run)" = "$user_run" ]
    done
    # In its parent folder, the directory's bare name does not refer to the run. ./NAME does.
    run as_user bash -c 'cd "$1" && exec dlrun status "$2"' - "$attacker_dir" "${hostile##*/}"
    [ "$status" -eq 6 ]
    run as_user bash -c 'cd "$1" && exec dlrun status "./$2"' - "$attacker_dir" "${hostile##*/}"
    [ "$status" -eq 0 ]
    # An entry that an earlier version of dlrun put into the index has no effect, either.
    entry='{"id":"%s","name":"mnist","path":"%s","created":"2099-01-01T00:00:00.000Z"}'
    as_user bash -c 'printf "$3" "$1" "$2" >"$HOME/.local/state/dlrun/runs/$1"' \
        - "${hostile##*/}" "$hostile" "$entry"
    for name in mnist last; do [ "$(dl status "$name" --json | jq -r .run)" = "$user_run" ]; done
    run dl resubmit "${hostile##*/}"
    [ "$status" -ne 0 ]
    [ "$(jobs_of_victim | wc -l)" -eq 1 ]
    # `wait` refuses a foreign run before it waits for the user's own.
    run timeout 20 "$testbed/as_user" bash -c 'cd "$1" && exec dlrun wait "$2" "$3"' - "$dir" \
        "$user_run" "$hostile"
    [ "$status" -eq 2 ]
    as_user rm "$DLRUN_TESTBED_HOME/.local/state/dlrun/runs/${hostile##*/}"
}

@test "no command acts on the user's runs when the points of a foreign sweep lead to them" {
    user_run_path=$(dl submit hello.yaml --runs "$dir/runs" --json | jq -r .path)
    hostile=$attacker_dir/lr-20990101-000000-0001
    write_hostile_run "$hostile"
    points='{"array":0,"task":0,"values":["0.1"]},{"array":0,"task":1,"values":["0.2"]}'
    write_hostile_file "$hostile/sweep.json" \
        <<<'{"keys":["train.lr"],"arrays":1,"points":['"$points"']}'
    for point in 0 1; do
        write_hostile_file "$hostile/array-0/$point/submission.json" <<<"{\"task\":$point}"
    done
    write_hostile_run "$hostile/array-0"
    write_hostile_file "$hostile/array-0/0/resubmitted" <<<"$user_run_path"
    as_attacker ln -s "$user_run_path" "$hostile/array-0/2"
    for path in "$hostile" "$hostile/0" "$hostile/array-0/1"; do
        before=$(hash_of "$hostile") jobs=$(jobs_of_victim)
        run_commands_on "$path"
        check_no_effect "$hostile"
    done
    [ ! -e "$user_run_path/cancelled" ]
}

@test "logs does not show a private file to which a foreign claim, pattern or link leads" {
    hostile=$attacker_dir/log-20990101-000000-0001
    write_hostile_run "$hostile"
    write_hostile_file "$hostile/claim" \
        <<<"{\"cluster\":\"c\",\"job\":\"1\",\"token\":\"\",\"log\":\"$dir/key\"}"
    write_hostile_file "$hostile/submission.json" \
        <<<'{"token":"t","state":"submitted","cluster":"","job":"1","output":"'"$dir/key"'"}'
    as_attacker bash -c 'mkdir -p "$1/logs/attempt-0" &&
        ln -s "$2" "$1/logs/attempt-0/rank-0000.log" && mkfifo "$1/logs/attempt-0/rank-0001.log"' \
        - "$hostile" "$dir/key"
    try_commands_on "$hostile"
    as_attacker rm "$hostile/submission.json"
    try_commands_on "$hostile"
    [[ $transcript == *"is not shown"* ]]
}

@test "a spec with a server: no command sends anything, unless a site file lists the server" {
    write_hostile_file "$attacker_dir/exp.yaml" <<YAML
name: exp
resources: {nodes: 1, time: 5m}
launch: {preset: plain, command: ["true"]}
submit: {via: slurmrestd, url: "$server", token_file: $dir/token}
YAML
    for words in check render explain "submit --dry-run" "submit --test-only" submit \
        "check --json" "interactive --dry-run"; do
        read -ra list <<<"$words"
        run dl "${list[0]}" "$attacker_dir/exp.yaml" "${list[@]:1}" --runs "$dir/runs"
        [[ $output != *secretword* ]]
    done
    run dl submit "$attacker_dir/exp.yaml" --runs "$dir/runs"
    echo "$output"
    [ "$status" -eq 2 ]
    [[ $output == *"your configuration does not list it"* && $output == *"exp.yaml:4:"* ]]
    [ -z "$(requests)" ]
    [ ! -e "$dir/runs" ] || [ -z "$(ls "$dir/runs")" ]
    as_user bash -c 'mkdir -p "$1/config/sites" &&
        echo "slurmrestd: [{url: \"$2\", token_file: $1/token}]" >"$1/config/sites/mine.yaml"' \
        - "$dir" "$server"
    run as_user env DLRUN_CONFIG="$dir/config" dlrun check "$attacker_dir/exp.yaml" \
        --runs "$dir/runs"
    [ -n "$(requests)" ]
}

@test "the text of a private file is never printed, even if a spec has this file as its base" {
    printf 'name: exp\nbase: %s/key\n' "$dir" | write_hostile_file "$attacker_dir/exp.yaml"
    for words in check render explain "submit --dry-run" run; do
        read -ra list <<<"$words"
        run dl "${list[0]}" "$attacker_dir/exp.yaml" "${list[@]:1}"
        [ "$status" -ne 0 ]
        [[ $output == *"a base's text is not shown"* && $output != *"PRIVATE KEY"* ]]
    done
}

@test "git starts no program that a repository configures, whoever owns the repository" {
    as_attacker bash -ec 'cd "$1" && git init -q . && git config user.email m@example.org &&
            git config user.name m
        for key in core.fsmonitor core.sshCommand diff.external filter.x.clean filter.x.process \
            filter.x.smudge diff.x.textconv diff.x.command; do
            git config "$key" "touch /tmp/canary-$USER; cat"; done
        printf "* filter=x diff=x\n" >.gitattributes
        printf "#!/bin/sh\ntouch /tmp/canary-%s\n" "$USER" >.git/hooks/post-index-change &&
            chmod +x .git/hooks/post-index-change
        git -c core.fsmonitor=false -c filter.x.clean= -c filter.x.process= add . &&
            git -c core.fsmonitor=false -c filter.x.clean= -c filter.x.process= commit -qm first
        printf "name: exp\nresources: {nodes: 1, time: 5m}\n" >exp.yaml &&
            printf "launch: {preset: plain, command: [\"true\"]}\n" >>exp.yaml &&
            chmod -R a+rX .' \
            - "$attacker_dir"
    rm -f "/tmp/canary-$attacker"
    as_user cp -r "$attacker_dir" "$dir/copied"
    as_user git config --file "$dir/gitconfig" safe.directory '*'
    for folder in "$attacker_dir" "$dir/copied"; do
        for words in check render explain "submit --dry-run" "submit --test-only" submit \
            "submit --set code.snapshot=true" run "run --set code.snapshot=true"; do
            read -ra list <<<"$words"
            run as_user env GIT_CONFIG_GLOBAL="$dir/gitconfig" DLRUN_RUNS="$dir/runs" dlrun \
                "${list[0]}" "$folder/exp.yaml" "${list[@]:1}"
            echo "$words: $output"
            [ ! -e "/tmp/canary-$attacker" ]
        done
    done
    # The provenance has a commit, which shows that dlrun called git.
    [ -n "$(find "$dir/runs" -name provenance.json -exec grep -l '"commit": "[0-9a-f]' {} +)" ]
}

@test "a runs folder that others may write: dlrun warns, and no foreign agent is executed" {
    shared=$dir/shared
    install -d -m 777 "$shared"
    as_user chmod 755 "$dir"
    run dl submit hello.yaml --runs "$shared" --set resources.begin=2037-01-02T03:04:05
    [ "$status" -eq 0 ]
    [[ $output == *"others may rename or replace files there"*"chmod +t"* ]]
    dl render hello.yaml --runs "$shared" -o "$dir/job.sh"
    agents=$shared/.agents-$(id -u "$DLRUN_TESTBED_USER")
    [ -n "$(find "$agents" -name dlrun-agent -perm -100)" ]
    as_attacker bash -ec 'mv "$1" "$1.away" && mkdir -p "$2" &&
        printf "#!/bin/sh\ntouch /tmp/canary-%s\n" "$USER" >"$2/dlrun-agent" && chmod -R 755 "$1"' \
        - \
        "$agents" "$agents/$(basename "$agents"/*)"
    rm -f "/tmp/canary-$attacker"
    run as_user bash "$dir/job.sh"
    [ "$status" -eq 126 ]
    [[ $output == *"belongs to another user"* ]]
    run dl submit hello.yaml --runs "$shared"
    [ "$status" -eq 2 ]
    [[ $output == *": belongs to user $attacker; choose another runs folder"* ]]
    [ ! -e "/tmp/canary-$attacker" ]
    chmod 1777 "$shared"
    rm -rf "$agents"
    run dl submit hello.yaml --runs "$shared" --set resources.begin=2037-01-02T03:04:05
    [ "$status" -eq 0 ]
    [[ $output != *"others may rename"* ]]
}

@test "if another user has created dlrun's folder for port locks in /tmp, a job does not use it" {
    as_user rm -rf "/tmp/dlrun-ports-$(id -u "$DLRUN_TESTBED_USER")"
    as_attacker ln -s "$dir" "/tmp/dlrun-ports-$(id -u "$DLRUN_TESTBED_USER")"
    chmod 755 "$dir"
    dl render hello.yaml --set launch.agent=false --set launch.preset=torch |
        sed -n '/^# A port for/,/^export DLRUN_MASTER_PORT/p' >"$dir/choose"
    before=$(hash_of "$dir")
    run as_user bash -ec '. "$1"; echo "port $dlrun_port in $dlrun_locks"' - "$dir/choose"
    rm "/tmp/dlrun-ports-$(id -u "$DLRUN_TESTBED_USER")"
    [ "$status" -eq 0 ]
    [[ $output == *"port "* && $output != *dlrun-ports-* ]]
    [ "$(hash_of "$dir")" = "$before" ]
}
