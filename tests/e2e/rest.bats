#!/usr/bin/env bats
# Submitting through a real slurmrestd, on a socket and over loopback with a token. The file has a
# testbed of its own, because the shared one has no slurmrestd.
# timeout: 300
# shellcheck disable=SC2030,SC2031 # bats: each test is a subshell

load helpers
load secrets

setup_file() {
    local own=$DLRUN_TESTBED_DIR.rest
    # This testbed also has its own user, so the runs of other files are in another list.
    forget_testbed
    export DLRUN_TESTBED_DIR=$own
    "$testbed/down" # A test run that was killed may have left a testbed.
    "$BATS_TEST_DIRNAME/fixture" up --rest --conf Licenses=tool:4
    load_testbed
    scontrol update nodename="n[1-3]" availablefeatures=fast activefeatures=fast
    scontrol create reservation reservationname=kept users="$DLRUN_TESTBED_USER" nodes=n4 \
        starttime=now duration=infinite
    base=$(fresh_dir)
    export base
}

teardown_file() {
    "$testbed/down"
}

setup() {
    dir=$base
    cat >"$dir/job.yaml" <<YAML
name: job
resources: {nodes: 1, tasks_per_node: 1, time: 5m}
launch: {preset: plain, command: [bash, -c, 'until [[ -e go ]]; do sleep 0.1; done']}
environment: {vars: {PATH: /usr/bin:/bin}}
submit: {url: "unix:$DLRUN_TESTBED_REST_SOCKET"}
YAML
    rm -rf "$dir"/{go,runs,proxy,token} # A failed test may have left these files.
    list_servers
}

teardown() {
    stop_proxy
    end_test
}

# start_proxy MODE...: starts rest_proxy.py between dlrun and slurmrestd, at $dir/proxy
start_proxy() {
    "$testbed/as_user" "$BATS_TEST_DIRNAME/rest_proxy.py" "$dir/proxy" "$@" 3>&- &
    proxy=$!
    wait_until 30 test -S "$dir/proxy"
}
stop_proxy() {
    [[ -z ${proxy-} ]] || kill "$proxy" 2>/dev/null || true
    proxy=
    rm -f "$dir/proxy" "$dir"/proxy.{held,log}
}

# list_servers [URL...]: writes the testbed's server, the proxy and each URL into the user's
# configuration as allowed servers.
list_servers() {
    # shellcheck disable=SC2016 # The inner shell expands it.
    as_user bash -c 'mkdir -p ~/.config/dlrun/sites &&
        exec >~/.config/dlrun/sites/servers.yaml && echo slurmrestd: &&
        for url in "unix:$DLRUN_TESTBED_REST_SOCKET" "unix:$1/proxy" unix:/run/nothing; do
            echo "  - {url: $url}"
        done &&
        for url in "$DLRUN_TESTBED_REST_URL" http://127.0.0.1:9 "${@:2}"; do
            for token in token nosuch; do echo "  - {url: $url, token_file: $1/$token}"; done
        done' - "$dir" "$@"
}

via() { echo "submit.via=$1"; }
state() { dl status "$1" --json | jq -r .state; }
is_state() { [[ $(state "$1") == "$2" ]]; }
jobs_in_queue() { squeue -h -u "$DLRUN_TESTBED_USER" -o %i | wc -l; }
is_running() { [[ $(job_state "$1") == RUNNING ]]; }

# new_token SECONDS: writes a token of this lifetime into the file token
new_token() {
    as_user bash -c 'umask 077 && rm -f "$1/token" && scontrol token lifespan="$2" >"$1/token"' \
        - "$dir" "$1"
}
by_token() {
    echo "--set submit.via=slurmrestd --set submit.url=$DLRUN_TESTBED_REST_URL" \
        "--set submit.token_file=$dir/token"
}

# Prints Slurm's description of a job, one field per line, without fields that always differ. In the
# logs' names, the job's own number and folder become JOB and RUN.
fields() {
    local names='JobId|AllocNode:Sid|SubmitTime|EligibleTime|AccrueTime|StartTime|EndTime'
    names+='|LastSchedEval|SuspendTime|Reason|Command|Comment|ArrayJobId|Priority'
    scontrol show job -dd "$1" | tr -s ' \n' '\n' |
        grep -Ev "^($names)=|^\\(?null\\)?\$|^\$" |
        sed -E "/^Std(Out|Err)=/{s#$dir/runs/job-[^/]*/#RUN/#;s#\\b$1\\b#JOB#g}"
}

# same SPEC-OPTIONS...: submits the same spec by sbatch and by slurmrestd, both held, and compares
# the jobs field by field.
same() {
    local one two
    one=$(dl submit job.yaml --json --set "$(via sbatch)" "$@" 2>/dev/null | jq -r .job)
    two=$(dl submit job.yaml --json --set "$(via slurmrestd)" "$@" 2>/dev/null | jq -r .job)
    [[ $one =~ ^[0-9]+$ && $two =~ ^[0-9]+$ ]] || { echo "$*: '$one' '$two'" >&2 && return 1; }
    fields "$one" >"$BATS_TEST_TMPDIR/one"
    fields "$two" >"$BATS_TEST_TMPDIR/two"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/one")" -gt 40 ]
    diff "$BATS_TEST_TMPDIR/one" "$BATS_TEST_TMPDIR/two" || { echo "of $*" >&2 && return 1; }
}

@test "slurmrestd and sbatch give the same job, field by field, for every common key" {
    held=(--set resources.begin=2037-01-02T03:04:05)
    same "${held[@]}"
    same "${held[@]}" --set resources.nodes=2 --set resources.tasks_per_node=3 \
        --set resources.cpus_per_task=2 --set resources.mem=4G
    same "${held[@]}" --set resources.nodes=2-4 --set resources.gpus_per_node=2 \
        --set resources.cpus_per_gpu=3 --set resources.mem_per_gpu=2G
    same "${held[@]}" --set resources.tasks_per_node=null --set resources.nodes=null \
        --set resources.ntasks=5 --set resources.gpus_per_task=1 --set resources.mem_per_cpu=100M
    same "${held[@]}" --set 'resources.gpus_per_node={type: pretend, count: 1}' \
        --set resources.exclusive=true --set resources.threads_per_core=1
    same "${held[@]}" --set resources.gres=gpu:pretend:2 --set resources.exclusive=user \
        --set resources.time=12:03:04
    same "${held[@]}" --set 'resources.nodelist=n[2-3]' --set resources.nodes=2 \
        --set resources.exclude=n4 --set resources.partition=preempt
    same "${held[@]}" --set after.any=1 --set resources.error=logs/%j.err
    grep -qx "StdErr=$dir/logs/JOB.err" "$BATS_TEST_TMPDIR/two"
    same "${held[@]}" --set resources.output=logs/%x-%j.out --set resources.account=some \
        --set resources.constraint=fast --set resources.licenses=tool:2
    for field in "StdOut=$dir/logs/job-JOB.out" Account=some Features=fast Licenses=tool:2; do
        grep -qxF "$field" "$BATS_TEST_TMPDIR/two"
    done
    same "${held[@]}" --set 'retry={max: 2, on: [node_failure, preemption]}'
    grep -qx Requeue=1 "$BATS_TEST_TMPDIR/two"
    same "${held[@]}" --set resources.reservation=kept
    grep -qx Reservation=kept "$BATS_TEST_TMPDIR/two"
    same "${held[@]}" --set 'slurm={mail-type: "BEGIN,END", mail-user: me@example.org, nice: "7"}'
    local words='mincpus: "3", time-min: "2", ntasks-per-socket: "1", cores-per-socket: "4"'
    same "${held[@]}" --set "slurm={$words, deadline: 2037-02-02T00:00:00}"
    words='oversubscribe: true, spread-job: true, use-min-nodes: true, no-kill: true'
    same "${held[@]}" --set "slurm={$words, wckey: w, delay-boot: \"5\"}"
}

@test "slurmrestd and sbatch give the same environment, umask and limits, without the token" {
    new_token 600
    token=$(sed 's/SLURM_JWT=//' "$dir/token")
    [ "${#token}" -gt 60 ]
    cat >"$dir/both" <<'SH'
cd "${0%/*}"
umask 027
ulimit -Sn 999
export BEFORE=$'two\nlines'
for how in sbatch slurmrestd; do
    [[ $how == sbatch ]] || export "$(<token)"
    dlrun submit show.yaml --watch --set submit.via=$how --set "environment.vars={HOW: $how}" \
        >log 2>&1 </dev/null
done
SH
    cat >"$dir/show.yaml" <<YAML
name: show
resources: {nodes: 2, tasks_per_node: 1, cpus_per_task: 2, gpus_per_node: 1, mem: 1G, time: 5m}
launch:
  preset: plain
  command: [bash, -c, '[[ \$SLURM_PROCID != 0 ]] ||
    { env -0 | sort -z | tr "\n\0" " \n"; umask; ulimit -Sa; pwd; } >\$HOW']
submit: {url: "$DLRUN_TESTBED_REST_URL", token_file: token}
YAML
    as_user bash -e "$dir/both" || { cat "$dir/log" >&2 && false; }
    names='SLURM_[A-Z_]*ID|SLURM_SRUN_COMM_PORT|SLURM_STEP_LAUNCHER_PORT|SLURM_TASK_PID'
    names+='|SLURM_LAUNCH|SLURM_GTIDS|SLURM_LOCALID|SLURM_NODEID|SLURM_PROCID|SLURMD_NODENAME'
    names+='|DLRUN_[A-Z_]*|HOW|HOSTNAME|TMPDIR|PMIX_[A-Z_0-9]*|PMI_[A-Z_]*|MASTER_[A-Z]*'
    for how in sbatch slurmrestd; do
        [ -s "$dir/$how" ]
        grep -Ev "^($names|_)=" "$dir/$how" >"$BATS_TEST_TMPDIR/$how"
    done
    diff "$BATS_TEST_TMPDIR/sbatch" "$BATS_TEST_TMPDIR/slurmrestd"
    grep -q '^BEFORE=two lines' "$dir/slurmrestd"
    grep -q '^0027$' "$dir/slurmrestd"
    run grep -rlF "$token" "$dir/slurmrestd" "$dir/log" "$dir/runs"
    [ "$status" -eq 1 ]
    job=$(dl status last --json | jq -r .job)
    run scontrol show job -dd "$job"
    [[ $output != *"$token"* ]]
}

@test "submit, ls, status, logs, wait and cancel need no Slurm command in PATH" {
    new_token 600
    alone() {
        as_user env PATH="$DLRUN_TESTBED_PREFIX/bin" DIR="$dir" \
            "$(command -v bash)" -c 'cd "$DIR" && exec dlrun "$@"' - "$@"
    }
    # shellcheck disable=SC2046 # splits the words
    run alone submit job.yaml $(by_token) --json
    [ "$status" -eq 0 ]
    id=$(jq -r .run <<<"$output") job=$(jq -r .job <<<"$output")
    wait_until 30 is_running "$job"
    run alone status "$id" --json
    echo "$output"
    [ "$(jq -r .state <<<"$output")" = running ]
    run alone ls --json
    echo "$output"
    [ "$(jq -r '.[0].state' <<<"$output")" = running ]
    as_user touch "$dir/go"
    run timeout 60 "$testbed/as_user" env PATH="$DLRUN_TESTBED_PREFIX/bin" dlrun wait "$id"
    [ "$status" -eq 0 ]
    alone logs "$id"
    run alone resubmit "$id" --json
    [ "$status" -eq 0 ]
    rm -f "$dir/go"
    # shellcheck disable=SC2046
    second=$(alone submit job.yaml $(by_token) --json | jq -r .run)
    alone cancel "$second"
    cancelled() { [[ $(alone status "$second" --json | jq -r .state) == cancelled ]]; }
    wait_until 60 cancelled
}

@test "a rendered script is submitted through slurmrestd if its spec says so" {
    dl render job.yaml --set "$(via slurmrestd)" -o "$dir/job.sh"
    run dl submit job.sh --json
    [ "$status" -eq 0 ]
    run jq -r .server.url "$(jq -r .path <<<"$output")/submission.json"
    [ "$output" = "unix:$DLRUN_TESTBED_REST_SOCKET" ]
}

@test "after a lost reply, the job is found by its run and exists once" {
    start_proxy swallow "$DLRUN_TESTBED_REST_SOCKET"
    run dl submit job.yaml --json --set "$(via slurmrestd)" --set "submit.url=unix:$dir/proxy"
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(jobs_in_queue)" -eq 1 ]
    [ "$(jq -r .job <<<"$output")" = "$(squeue -h -u "$DLRUN_TESTBED_USER" -o %i)" ]
}

@test "after lost replies, queries are repeated, and a job is sent again only if Slurm has none" {
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
    [ "$(jobs_in_queue)" -eq 1 ]
}

# refused CODE WORDS ARGUMENTS...: checks the exit code and the message, and that nothing is
# recorded or queued.
refused() {
    local code=$1 words=$2
    shift 2
    run dl submit job.yaml "$@"
    echo "$output"
    [ "$status" -eq "$code" ]
    [[ $output == *"$words"* ]]
    [ ! -e "$dir/runs" ] || [ -z "$(ls "$dir/runs")" ]
    [ "$(jobs_in_queue)" -eq 0 ]
}

@test "a missing socket, server or token, or a bad token, gives an error and no record" {
    rest=(--set "$(via slurmrestd)")
    refused 4 "no such socket" "${rest[@]}" --set submit.url=unix:/run/nothing
    refused 2 "set submit.token_file" "${rest[@]}" --set "submit.url=$DLRUN_TESTBED_REST_URL"
    refused 2 "would send the token in the clear" "${rest[@]}" \
        --set submit.url=http://rest.example.org --set submit.token_file=token
    refused 6 "No such file" "${rest[@]}" --set "submit.url=$DLRUN_TESTBED_REST_URL" \
        --set submit.token_file=nosuch
    new_token 600
    chmod 640 "$dir/token"
    # shellcheck disable=SC2046
    refused 2 "others may read" $(by_token)
    as_user bash -c 'umask 077 && rm -f "$1/token" && echo nonsense >"$1/token"' - "$dir"
    # shellcheck disable=SC2046
    refused 4 "does not accept the token of $dir/token" $(by_token)
    new_token 600
    refused 4 "onnect" "${rest[@]}" --set submit.url=http://127.0.0.1:9 \
        --set "submit.token_file=$dir/token"
    new_token 1
    sleep 2 # The token must expire.
    # shellcheck disable=SC2046
    refused 2 "expired" $(by_token)
}

# certificate NAME SAN [AUTHORITY]: makes NAME.pem and NAME.key in the test's own folder,
# self-signed or signed by that authority.
certificate() {
    local by=()
    [[ -z ${3-} ]] || by=(-CA "$BATS_TEST_TMPDIR/$3.pem" -CAkey "$BATS_TEST_TMPDIR/$3.key")
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
        -subj "/CN=$1" -addext "$2" "${by[@]}" \
        -keyout "$BATS_TEST_TMPDIR/$1.key" -out "$BATS_TEST_TMPDIR/$1.pem" 2>/dev/null
}
# tls NAME: puts slurmrestd behind TLS with that certificate; sets url.
tls() {
    stop_proxy
    cp "$BATS_TEST_TMPDIR/$1".{pem,key} "$dir"
    chown "$DLRUN_TESTBED_USER" "$dir/$1".{pem,key}
    "$testbed/as_user" "$BATS_TEST_DIRNAME/rest_proxy.py" "$dir/proxy" tls "$dir/$1.pem" \
        "$dir/$1.key" "${DLRUN_TESTBED_REST_URL##*:}" 3>&- &
    proxy=$!
    wait_until 30 test -s "$dir/proxy"
    url=https://127.0.0.1:$(<"$dir/proxy")
    list_servers "$url"
}
# Runs dlrun as on a machine that trusts only the test's certificate authority.
dl_trusting() {
    unshare --mount bash -c 'mount --bind "$1" /etc/ssl/certs/ca-certificates.crt && shift &&
        exec "$@"' \
        - "$BATS_TEST_TMPDIR/authority.pem" \
        "$testbed/as_user" bash -c 'cd "$1" && shift && exec dlrun "$@"' - "$dir" "$@"
}

@test "over TLS the server's certificate and name are checked before the token is sent" {
    certificate authority keyUsage=keyCertSign
    certificate good subjectAltName=IP:127.0.0.1 authority
    certificate misnamed subjectAltName=DNS:other.example.org authority
    new_token 600
    for name in good misnamed; do
        tls "$name"
        trusting=dl_trusting
        # The certificate `good` is valid, but `dl` does not know its authority.
        [[ $name == misnamed ]] || trusting=dl
        run "$trusting" submit job.yaml --set submit.via=slurmrestd --set "submit.url=$url" \
            --set "submit.token_file=$dir/token"
        echo "$output"
        [ "$status" -eq 4 ]
        [[ $output == *certificate* ]]
        [ "$(jobs_in_queue)" -eq 0 ]
        [ ! -e "$dir/runs" ] || [ -z "$(ls "$dir/runs")" ]
        [ "$(wc -l <"$dir/proxy")" -eq 1 ] # No request has arrived.
    done
    tls good
    run dl_trusting submit job.yaml --json --set submit.via=slurmrestd --set "submit.url=$url" \
        --set "submit.token_file=$dir/token"
    echo "$output"
    [ "$status" -eq 0 ]
    wait_until 30 is_running "$(jq -r .job <<<"$output")"
    run dl_trusting status last --json
    [ "$(jq -r .state <<<"$output")" = running ]
    grep -q '^POST /slurm/v0.0.38/job/submit' "$dir/proxy"
}

@test "a secret reaches the rank, but not the environment that slurmrestd gets" {
    make_secrets
    # shellcheck disable=SC2016 # not expanded by the test
    local program='printf %s \"$MY_KEY,$MY_TOKEN\" | sha256sum'
    dl_with_key submit job.yaml --set "$(via slurmrestd)" \
        --set 'environment.secrets=[MY_KEY, {name: MY_TOKEN, file: token}]' \
        --set "launch.command=[bash, -c, \"$program; until [[ -e go ]]; do sleep 0.1; done\"]"
    has_printed_digest() { [[ $(dl logs last) == *"$expected"* ]]; }
    wait_until 60 has_printed_digest
    no_argument_has_a_secret
    slurm_has_no_secret "$(dl status last --json | jq -r .job)"
    [ "$(holders "$DLRUN_TESTBED_HOME")" = "$(dl status last --json | jq -r .path)/secrets" ]
    as_user touch "$dir/go"
    dl wait last
}

@test "a server with another version of the API, or without Slurm's API, is refused" {
    start_proxy answer 200 \
        '{"paths": {"/slurm/v0.0.41/job/submit": {}, "/slurm/v0.0.42/job/submit": {}}}'
    refused 3 "in version v0.0.41 and v0.0.42 of its API; dlrun speaks v0.0.38" \
        --set "$(via slurmrestd)" --set "submit.url=unix:$dir/proxy"
    stop_proxy
    start_proxy answer 502 'Bad Gateway'
    refused 4 "HTTP 502: Bad Gateway" --set "$(via slurmrestd)" --set "submit.url=unix:$dir/proxy"
}

@test "a refusal by Slurm is printed in Slurm's words and recorded in the run" {
    run dl submit job.yaml --set "$(via slurmrestd)" --set resources.partition=nosuch
    [ "$status" -eq 3 ]
    [[ $output == *"Slurm refused (slurmrestd): Invalid partition name specified (2000)"* ]]
    [ "$(state last)" = refused ]
}

@test "keys that slurmrestd would drop or misread are refused together before anything is sent" {
    refused 2 "resources.hint: slurmrestd (v0.0.38) cannot do what --hint=nomultithread does" \
        --set "$(via slurmrestd)" --set resources.hint=nomultithread \
        --set resources.distribution=cyclic --set resources.signal=B:USR1@60 \
        --set 'slurm={contiguous: true}' --set resources.clusters=other
    [[ $output == *"resources.distribution: "* && $output == *"resources.signal: "* &&
        $output == *"--contiguous"* && $output == *"resources.clusters: "* ]]
    run dl check job.yaml --set "$(via slurmrestd)"
    [ "$status" -eq 0 ]
    [[ $output == *"slurmrestd of Slurm 22.05"* ]]
}

@test "a sweep is one array with a throttle, and one point or all can be cancelled" {
    parent=last
    points() { dl sweep "$parent" --sort point --json 2>/dev/null | jq -r ".[] | $1" | xargs; }
    points_are() { [[ $(points .state | tr ' ' '\n' | sort | uniq -c | xargs) == "$1" ]]; }
    cat >"$dir/sweep.yaml" <<YAML
name: swept
resources: {nodes: 1, tasks_per_node: 1, time: 5m}
launch:
  preset: plain
  command: [bash, -c, 'touch began-\$X; until [[ -e go ]]; do sleep 0.1; done; echo \$X >>ran']
environment: {vars: {PATH: /usr/bin:/bin, X: ""}}
submit: {via: slurmrestd, url: "unix:$DLRUN_TESTBED_REST_SOCKET"}
sweep: {parameters: {environment.vars.X: [a, b, c, d, e, f]}, max_parallel: 2}
YAML
    dl check sweep.yaml
    run dl submit sweep.yaml --json
    [ "$status" -eq 0 ]
    job=$(jq -r '.jobs | join(" ")' <<<"$output")
    [[ $job =~ ^[0-9]+$ ]]
    [[ $(scontrol show job "$job") == *"ArrayTaskThrottle=2"* ]]
    wait_until 60 points_are "4 pending 2 running"
    [[ $(points .job) == "${job}_0 ${job}_1 ${job}_2 ${job}_3 ${job}_4 ${job}_5" ]]
    dl cancel last/5
    wait_until 60 points_are "1 cancelled 3 pending 2 running"
    as_user touch "$dir/go"
    wait_until 90 points_are "1 cancelled 5 completed"
    [[ $(sort "$dir/ran" | xargs) == "a b c d e" ]]
    parent=$(dl status last --json | jq -r .run)
    dl resubmit "$parent/5" --watch
    [[ $(points .state | tr ' ' '\n' | sort -u) == completed ]]
    rm "$dir"/{go,ran} "$dir"/began-*
    dl submit sweep.yaml
    parent=last
    wait_until 60 test -e "$dir/began-a"
    dl cancel last
    wait_until 60 points_are "6 cancelled"
    [ ! -e "$dir/ran" ]
}

@test "hostile strings through slurmrestd are refused or arrive byte for byte, and none runs" {
    work=$dir/hostile
    as_user mkdir "$work"
    install -m 755 "$BATS_TEST_DIRNAME/hostile_strings.py" "$dir"
    cat "$DLRUN_SOURCE_DIR"/launcher/spec/keys/*_keys.h | install -m 644 /dev/stdin "$dir/keys"
    run as_user bash -c 'cd "$1/hostile" &&
        exec "$1/hostile_strings.py" --keys "$1/keys" --rest "unix:$2" "${@:3}"' \
        - "$dir" "$DLRUN_TESTBED_REST_SOCKET" \
        ${DLRUN_TEST_ALL_STRINGS:+--all}
    echo "$output" | tail -n 70
    [ "$status" -eq 0 ]
    [ -z "$(find "$dir" -name 'canary*' -print -quit)" ]
}
