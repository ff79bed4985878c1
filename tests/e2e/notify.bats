#!/usr/bin/env bats
# notify: messages to a webhook and to a command, sent by the run itself or later by the login node.
# timeout: 180

load helpers

setup() {
    dir=$(fresh_dir)
    serve
    as_user tee "$dir/n.yaml" >/dev/null <<'YAML'
name: n
resources: {time: 5m}
launch: {command: [bash, -c, 'echo "the last words"; exit 3']}
notify: {webhook: {secret: HOOK}}
YAML
}
teardown() {
    stop_server
    end_test
}

# serve [PORT]: starts the server of tests/notice_server.py on the login node; sets port.
serve() {
    as_user rm -f "$dir/port"
    "$testbed/as_user" "$(user_source)/tests/notice_server.py" "$dir/log" "$dir/port" "$@" \
        3>&- &
    server=$!
    wait_until 30 test -s "$dir/port"
    port=$(<"$dir/port")
}
stop_server() {
    [[ -z ${server-} ]] || pkill -P "$server" 2>/dev/null || true
    [[ -z ${server-} ]] || kill "$server" 2>/dev/null || true
    server=
}
# The address comes from a file, so that no process of this test has it in an argument.
with_hook() { # with_hook URL-PATH ARGS...: dlrun, with the server's address and URL-PATH in $HOOK
    printf 'export HOOK=http://127.0.0.1:%s/%s\n' "$port" "$1" >"$dir/env.sh"
    chown "$DLRUN_TESTBED_USER:" "$dir/env.sh"
    shift
    as_user bash -c 'cd "$1" && . ./env.sh && rm env.sh && shift && exec dlrun "$@"' - "$dir" "$@"
}
path() { dl status last --json | jq -r .path; }
request_count() { if [[ -e $dir/log ]]; then wc -l <"$dir/log"; else echo 0; fi; }
notice_has_state() { [[ $(dl notify last --json | jq -r '.[0].state') == "$1" ]]; }
has_request_count() { (($(request_count) == $1)); }
# While a dlrun in the background tries to send the message, the file has another suffix.
waiting_notice_has_mode() {
    [[ $(stat -c %a "$run_path"/notify/*.webhook 2>/dev/null) == "$1" ]]
}

@test "a failed run on this machine itself sends one message, with the cause and last output" {
    run with_hook ok/address-4711 run n.yaml
    [ "$status" -eq 5 ]
    has_request_count 1
    [ "$(jq -r '.body.event' "$dir/log")" = failed ]
    [ "$(jq -r '.body.run' "$dir/log")" = "$(basename "$(path)")" ]
    [ "$(jq -r '.body.last_words[-1]' "$dir/log")" = "the last words" ]
    [[ $(jq -r '.body.text' "$dir/log") == *"Rank 0"*"printed last"* ]]
    [ -z "$(ls -A "$(path)/notify")" ]
    dl ls
    dl notify --relay
    has_request_count 1
    # The address is in no file of the run, and nowhere else in the user's home.
    run grep -rl address-4711 "$DLRUN_TESTBED_HOME" --exclude=log
    [ -z "$output" ]
}

@test "a message that a node cannot send waits in the run, and the login node sends it once" {
    stop_server
    with_hook ok/address-4711 submit n.yaml
    run dl wait last
    [ "$status" -eq 5 ]
    run_path=$(path)
    [ ! -e "$run_path/secrets" ]
    [ "$(stat -c %a "$run_path/notify")" = 700 ]
    wait_until 30 notice_has_state waiting
    wait_until 30 waiting_notice_has_mode 600
    scontrol write batch_script "$(dl status last --json | jq -r .job)" - >"$BATS_TEST_TMPDIR/batch"
    run grep address-4711 "$BATS_TEST_TMPDIR/batch"
    [ "$status" -eq 1 ]
    run grep -l address-4711 "$run_path"/{job.sh,spec.yaml,resolved.yaml,plan.json,events.jsonl,slurm-*}
    [ -z "$output" ]
    serve "$port"
    # Several commands that run at the same time send the message once.
    dl ls & first=$!
    dl ls & second=$!
    dl notify --relay || true
    wait "$first"
    wait "$second"
    wait_until 30 has_request_count 1
    wait_until 30 test ! -e "$run_path/notify/address"
    dl ls
    dl notify --relay
    has_request_count 1
    [ "$(jq -r .body.event "$dir/log")" = failed ]
}

@test "an endpoint that never answers delays a run by less than 30 s, and is not asked again" {
    start=$SECONDS
    with_hook silent/x run n.yaml --set 'launch.command=[true]'
    ((SECONDS - start < 30))
    has_request_count 1
    notice_has_state unconfirmed
    dl notify --relay || true
    has_request_count 1
}

@test "a redirect is not followed, and a message waits if a busy server did not take it" {
    with_hook redirect/x run n.yaml --set 'launch.command=[true]'
    has_request_count 1
    notice_has_state refused
    with_hook status-503/x run n.yaml --set 'launch.command=[true]'
    wait_until 30 notice_has_state waiting
}

@test "notify.command gets the text, and a secret that is not set is reported before queueing" {
    as_user tee "$dir/tell" >/dev/null <<'SH'
#!/bin/bash
{ echo "$@"; cat; } >>"$(dirname "$0")/told"
SH
    as_user chmod +x "$dir/tell"
    dl submit n.yaml --set notify.webhook.secret=null \
        --set "notify.command=[$dir/tell, '{subject}']"
    run dl wait last
    wait_until 30 grep -q "the last words" "$dir/told"
    [ "$(head -n 1 "$dir/told")" = "$(basename "$(path)") failed" ]
    run dl submit n.yaml
    [ "$status" -eq 2 ]
    [[ $output == *"n.yaml:4:"*"HOOK is not set"* ]]
    no_jobs
}
