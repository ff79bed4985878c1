#!/usr/bin/env bats
# Faults between dlrun and a real slurmrestd: lost and unusable replies, bad tokens, certificates,
# missing versions of the API.
# timeout: 300
# shellcheck disable=SC2030,SC2031 # bats: each test is a subshell

load helpers
load rest

@test "after a lost reply, dlrun finds the run's job, which exists once" {
    start_proxy swallow "$DLRUN_TESTBED_REST_SOCKET"
    run dl submit job.yaml --json --set "$(via slurmrestd)" --set "submit.url=unix:$dir/proxy"
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(count_jobs)" -eq 1 ]
    [ "$(jq -r .job <<<"$output")" = "$(squeue -h -u "$DLRUN_TESTBED_USER" -o %i)" ]
}

@test "after lost replies, queries are repeated, and a job that Slurm does not have is sent again" {
    start_proxy reset "$DLRUN_TESTBED_REST_SOCKET"
    run dl submit job.yaml --json --set "$(via slurmrestd)" --set "submit.url=unix:$dir/proxy"
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(jq -r .job <<<"$output")" = "$(squeue -h -u "$DLRUN_TESTBED_USER" -o %i)" ]
    run sed 's:/slurm/v[0-9.]*::' "$dir/proxy.log"
    [ "$output" \
        = "$(printf '%s\n' GET\ /{openapi/v3,openapi/v3,openapi/v3,ping,ping,ping} \
        POST\ /job/submit GET\ /{jobs,jobs,jobs} POST\ /job/submit)" ]
}

@test "if dlrun is killed while it waits for the reply, status finds the job and sends nothing" {
    start_proxy hold "$DLRUN_TESTBED_REST_SOCKET"
    as_user bash -c 'cd "$1" && echo $$ >pid &&
        exec dlrun submit job.yaml --set submit.via=slurmrestd --set "submit.url=unix:$1/proxy"' \
        - "$dir" 3>&- &
    wait_until 30 test -e "$dir/proxy.held"
    as_user kill -KILL "$(<"$dir/pid")"
    wait_until 30 is_running "$(squeue -h -u "$DLRUN_TESTBED_USER" -o %i)"
    run dl status last --json
    [ "$(jq -r .state <<<"$output")" = running ]
    [ "$(count_jobs)" -eq 1 ]
}

@test "a missing socket, server or token, or a bad token, gives an error and no record" {
    rest=(--set "$(via slurmrestd)")
    submit_is_refused 4 "no such socket" "${rest[@]}" --set submit.url=unix:/run/nothing
    submit_is_refused 2 "set submit.token_file" "${rest[@]}" \
        --set "submit.url=$DLRUN_TESTBED_REST_URL"
    submit_is_refused 2 "would send the token unencrypted" "${rest[@]}" \
        --set submit.url=http://rest.example.org --set submit.token_file=token
    submit_is_refused 6 "No such file" "${rest[@]}" --set "submit.url=$DLRUN_TESTBED_REST_URL" \
        --set submit.token_file=nosuch
    write_token 600
    chmod 640 "$dir/token"
    # shellcheck disable=SC2046
    submit_is_refused 2 "others may read" $(by_token)
    as_user bash -c 'umask 077 && rm -f "$1/token" && echo nonsense >"$1/token"' - "$dir"
    # shellcheck disable=SC2046
    submit_is_refused 4 "does not accept the token of $dir/token" $(by_token)
    write_token 600
    submit_is_refused 4 "onnect" "${rest[@]}" --set submit.url=http://127.0.0.1:9 \
        --set "submit.token_file=$dir/token"
    write_token 1
    sleep 2 # The token must expire.
    # shellcheck disable=SC2046
    submit_is_refused 2 "expired" $(by_token)
}

@test "a program of another user that holds the server's port gets no token" {
    local port
    port=$(free_port)
    allow_servers "http://127.0.0.1:$port"
    write_token 600
    setpriv --reuid=daemon --regid=daemon --clear-groups /usr/bin/python3 -m http.server "$port" \
        --bind 127.0.0.1 --directory /tmp >"$BATS_TEST_TMPDIR/requests" 2>&1 3>&- &
    stranger=$!
    wait_until 10 bash -c ": </dev/tcp/127.0.0.1/$port"
    submit_is_refused 3 "user daemon (uid 1) listens there" --set "$(via slurmrestd)" \
        --set "submit.url=http://127.0.0.1:$port" --set "submit.token_file=$dir/token"
    if [[ -e $DLRUN_BUILD_DIR/portable/bin/dlrun ]]; then
        install_portable
        run portable submit job.yaml --set "$(via slurmrestd)" \
            --set "submit.url=http://127.0.0.1:$port" --set "submit.token_file=$dir/token"
        [ "$status" -eq 3 ]
        [[ $output == *"user daemon (uid 1) listens there"* ]]
    fi
    kill "$stranger"
    [[ $(grep -c GET "$BATS_TEST_TMPDIR/requests") == 0 ]]
}

# make_certificate NAME EXTENSION [AUTHORITY]: makes NAME.pem and NAME.key in BATS_TEST_TMPDIR,
# self-signed or signed by that authority.
make_certificate() {
    local by=()
    [[ -z ${3-} ]] || by=(-CA "$BATS_TEST_TMPDIR/$3.pem" -CAkey "$BATS_TEST_TMPDIR/$3.key")
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
        -subj "/CN=$1" -addext "$2" "${by[@]}" \
        -keyout "$BATS_TEST_TMPDIR/$1.key" -out "$BATS_TEST_TMPDIR/$1.pem" 2>/dev/null
}
# serve_over_tls NAME: puts slurmrestd behind TLS with that certificate; sets url, and allows this
# server in the user's configuration.
serve_over_tls() {
    stop_proxy
    cp "$BATS_TEST_TMPDIR/$1".{pem,key} "$dir"
    chown "$DLRUN_TESTBED_USER" "$dir/$1".{pem,key}
    "$testbed/as_user" "$(user_source)/tests/e2e/rest_proxy.py" "$dir/proxy" tls "$dir/$1.pem" \
        "$dir/$1.key" "${DLRUN_TESTBED_REST_URL##*:}" 3>&- &
    # shellcheck disable=SC2034 # stop_proxy reads it
    proxy=$!
    wait_until 30 test -s "$dir/proxy"
    url=https://127.0.0.1:$(<"$dir/proxy")
    allow_servers "$url"
}
# Runs dlrun as on a machine that trusts only the test's certificate authority.
dl_trusting() {
    unshare --mount bash -c 'mount --bind "$1" /etc/ssl/certs/ca-certificates.crt && shift &&
        exec "$@"' \
        - "$BATS_TEST_TMPDIR/authority.pem" \
        "$testbed/as_user" bash -c 'cd "$1" && shift && exec dlrun "$@"' - "$dir" "$@"
}

@test "over TLS the server's certificate and name are checked before the token is sent" {
    make_certificate authority keyUsage=keyCertSign
    make_certificate good subjectAltName=IP:127.0.0.1 authority
    make_certificate misnamed subjectAltName=DNS:other.example.org authority
    write_token 600
    for name in good misnamed; do
        serve_over_tls "$name"
        client=dl_trusting
        # The certificate `good` is valid, but `dl` does not know its authority.
        [[ $name == misnamed ]] || client=dl
        run "$client" submit job.yaml --set submit.via=slurmrestd --set "submit.url=$url" \
            --set "submit.token_file=$dir/token"
        echo "$output"
        [ "$status" -eq 4 ]
        [[ $output == *certificate* ]]
        [ "$(count_jobs)" -eq 0 ]
        [ ! -e "$dir/runs" ] || [ -z "$(ls "$dir/runs")" ]
        [ "$(wc -l <"$dir/proxy")" -eq 1 ] # This is the port. No request has arrived.
    done
    serve_over_tls good
    run dl_trusting submit job.yaml --json --set submit.via=slurmrestd --set "submit.url=$url" \
        --set "submit.token_file=$dir/token"
    echo "$output"
    [ "$status" -eq 0 ]
    wait_until 30 is_running "$(jq -r .job <<<"$output")"
    run dl_trusting status last --json
    [ "$(jq -r .state <<<"$output")" = running ]
    grep -q "^POST /slurm/$api_version/job/submit" "$dir/proxy"
}

@test "unknown API versions, HTTP errors, and incomplete, huge or foreign answers leave no record" {
    # If a version was configured, dlrun would report that the answer lacks this version.
    # shellcheck disable=SC2034 # allow_servers reads it
    wanted_version=
    allow_servers
    while IFS='|' read -r exit_code text http_status body <&4; do
        start_proxy answer "$http_status" "$body"
        # shellcheck disable=SC2046 # splits the words
        submit_is_refused "$exit_code" "$text" $(by_proxy)
        stop_proxy
    done 4<<'ANSWERS'
3|in version v0.0.46 of its API; dlrun speaks v0|200|{"paths": {"/slurm/v0.0.46/job/submit": 0}}
3|describes no Slurm API that accepts jobs|200|{"paths": {}}
4|HTTP 502: Bad Gateway|502|Bad Gateway
4|not a complete JSON object: '{"paths": {"/slu'|200|{"paths": {"/slu
4|is larger than 32 MiB|200|100MB
3|does not accept this user (HTTP 511|511|{"errors": [{"error": "Authentication failure"}]}
ANSWERS
}

@test "after an unusable reply, dlrun looks for the job, sends it once more, then fails with 4" {
    while IFS='|' read -r text body <&4; do
        start_proxy intercept 200 "$body" "$DLRUN_TESTBED_REST_SOCKET"
        # shellcheck disable=SC2046 # splits the words
        run dl submit job.yaml $(by_proxy)
        echo "$output"
        [ "$status" -eq 4 ]
        [[ $output == *"$text"* ]]
        [ "$(wc -l <"$dir/proxy.log")" -eq 2 ]
        [ "$(count_jobs)" -eq 0 ]
        stop_proxy
    done 4<<'ANSWERS'
not a complete JSON object|{"job_id": 4
larger than 32 MiB|100MB
without a job id|{}
ANSWERS
}

@test "after a refusal that a gateway may have sent, dlrun looks for the job and does not resend" {
    # 502,403: the first submission gets 502, which is no refusal, so dlrun sends it again; the
    # second one gets 403.
    while read -r http_status body <&4; do
        start_proxy accept_but_refuse "$http_status" "$body" "$DLRUN_TESTBED_REST_SOCKET"
        # shellcheck disable=SC2046 # splits the words
        run dl submit job.yaml --json $(by_proxy)
        echo "$output"
        [ "$status" -eq 0 ]
        [ "$(count_jobs)" -eq 1 ]
        [ "$(jq -r .job <<<"$output")" = "$(squeue -h -u "$DLRUN_TESTBED_USER" -o %i)" ]
        dl cancel last
        wait_until 30 no_jobs
        stop_proxy
        [[ $http_status != *,* ]] || continue
        start_proxy intercept "$http_status" "$body" "$DLRUN_TESTBED_REST_SOCKET"
        # shellcheck disable=SC2046 # splits the words
        run dl submit job.yaml $(by_proxy)
        echo "$output"
        [ "$status" -eq 3 ]
        [ "$(wc -l <"$dir/proxy.log")" -eq 1 ]
        [ "$(state last)" = refused ]
        [ "$(count_jobs)" -eq 0 ]
        stop_proxy
    done 4<<'ANSWERS'
422 {"errors": [{"error": "Invalid account"}]}
401 <html>Access denied</html>
403 {"errors": [{"error": "Access denied"}]}
511 <html>Access denied</html>
502,403 <html>Access denied</html>
ANSWERS
}

@test "a job that Slurm queues with an error is recorded as submitted and exists once" {
    start_proxy error "$DLRUN_TESTBED_REST_SOCKET"
    # shellcheck disable=SC2046 # splits the words
    run dl submit job.yaml --json $(by_proxy)
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(jq -r .job <<<"$output")" = "$(squeue -h -u "$DLRUN_TESTBED_USER" -o %i)" ]
}

@test "if slurmrestd ignores a field, dlrun cancels the job and records it as refused" {
    start_proxy warn "$DLRUN_TESTBED_REST_SOCKET"
    # shellcheck disable=SC2046 # splits the words
    run dl submit job.yaml $(by_proxy)
    echo "$output"
    [ "$status" -eq 3 ]
    [[ $output == *'Ignoring unknown field "odd"'*"was cancelled"* ]]
    [ "$(state last)" = refused ]
    wait_until 30 no_jobs
}

@test "dlrun uses the newest common API version or the configured one, and doctor lists all" {
    run dl check job.yaml --set "$(via slurmrestd)"
    echo "$output"
    [[ $output == *"answers in $api_version and"* ]]
    run dl doctor
    echo "$output"
    local serves="slurmrestd at unix:$DLRUN_TESTBED_REST_SOCKET serves "
    [[ $output == *"$serves"*"$api_version"*"; dlrun uses "* ]]
    # shellcheck disable=SC2034 # allow_servers reads it
    wanted_version=v0.0.40
    allow_servers
    served_versions | grep -qx v0.0.40 ||
        submit_is_refused 3 "your configuration requests v0.0.40" --set "$(via slurmrestd)"
}

@test "a refusal by Slurm is printed in Slurm's words and recorded in the run" {
    run dl submit job.yaml --set "$(via slurmrestd)" --set resources.partition=nosuch
    [ "$status" -eq 3 ]
    [[ $output == *"Slurm refused (slurmrestd): Invalid partition name specified"*"(2000)"* ]]
    [ "$(state last)" = refused ]
}
