#!/usr/bin/env bats
# track.mlflow and `dlrun track sync`: all attempts become one run on an MLflow server. A small HTTP
# server (tests/mlflow_server.py) takes the place of MLflow.
# timeout: 180

load helpers

setup() {
    dir=$(fresh_dir)
    serve
    as_user tee "$dir/m.yaml" >/dev/null <<YAML
name: m
resources: {time: 5m}
launch:
  command:
    - bash
    - -c
    - |
      say() { echo "\$1" >"\$DLRUN_PROGRESS"; sleep 2; }
      say "{\"step\": \$((DLRUN_ATTEMPT * 10 + 1)), \"loss\": 0.5, \"lr\": 0.1}"
      say "{\"step\": \$((DLRUN_ATTEMPT * 10 + 2)), \"loss\": 0.25}"
      [[ \$DLRUN_ATTEMPT == 1 ]]
retry: {max: 1, on: [failure]}
track: {mlflow: {url: "http://127.0.0.1:$port", experiment: mine, secret: TRACK_TOKEN}}
YAML
}
teardown() {
    [[ -z ${server-} ]] || kill "$server" 2>/dev/null || true
    end_test
}

# Starts the server of tests/mlflow_server.py on the login node, with the token `canary`; sets port.
serve() {
    as_user mkfifo "$dir/stdin"
    as_user mkdir "$dir/served"
    printf canary | as_user tee "$dir/served/token" >/dev/null
    "$testbed/as_user" bash -c 'exec "$@" <>"$0"' "$dir/stdin" \
        "$(user_source)/tests/mlflow_server.py" "$dir/served" "$dir/port" 3>&- &
    server=$!
    wait_until 30 test -s "$dir/port"
    port=$(<"$dir/port")
}
# with_token ARGUMENTS...: runs dlrun with the server's token in TRACK_TOKEN.
with_token() {
    printf 'export TRACK_TOKEN=canary\n' >"$dir/env.sh"
    chown "$DLRUN_TESTBED_USER:" "$dir/env.sh"
    as_user bash -c 'cd "$1" && . ./env.sh && rm env.sh && shift && exec dlrun "$@"' - "$dir" "$@"
}
path() { dl status last --json | jq -r .path; }
only_run() { # only_run FILTER: applies the filter to the server's only run
    jq -c ".runs | to_entries | if length == 1 then .[0].value | $1 else error end" \
        "$dir/served/state.json"
}

@test "dlrun run makes one run on the MLflow server for both attempts" {
    with_token run m.yaml
    [ "$(only_run .status)" = '"FINISHED"' ]
    [ "$(only_run '.metrics | map(select(.[0] == "loss") | [.[3], .[1]])')" = \
        '[[1,0.5],[2,0.25],[11,0.5],[12,0.25]]' ]
    [ "$(only_run '.params["retry.max"]')" = '"1"' ]
    [ "$(only_run '.tags["dlrun.run"]')" = "\"$(basename "$(path)")\"" ]
    [ "$(only_run '.tags["mlflow.user"]')" = "\"$DLRUN_TESTBED_USER\"" ]
    # The server has all values, and the token is in no file of the run.
    printed=$(with_token track sync last)
    [[ $printed == *"the server has the whole record; 0 values were sent now"* ]]
    run grep -rl canary "$(path)"
    [ -z "$output" ]
}

@test "track sync sends the values that the nodes could not send" {
    as_user touch "$dir/served/down"
    as_user tee "$dir/report" >/dev/null <<'SH'
#!/bin/bash
echo '{"step": 3, "loss": 2.5}' >"$DLRUN_PROGRESS"
sleep 2
SH
    with_token submit m.yaml --set retry.max=0 --set "launch.command=[bash, $dir/report]"
    dl wait last
    run dl track sync last
    [ "$status" -eq 2 ]
    [[ $output == *"export TRACK_TOKEN"* ]]
    run with_token track sync last
    [ "$status" -eq 1 ]
    [[ $output == *"status 503"* ]]
    as_user rm "$dir/served/down"
    with_token track sync last
    [ "$(only_run '.metrics | map([.[0], .[1], .[3]])')" = '[["loss",2.5,3]]' ]
    [ "$(only_run .status)" = '"FINISHED"' ]
}
