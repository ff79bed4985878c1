# shellcheck shell=bash
# For test files that submit through a real slurmrestd, on a socket and over loopback with a token.
# Each file has a testbed of its own, because the shared testbeds have no slurmrestd. The files
# start with `load helpers` and `load rest`. With DLRUN_TEST_REST_VERSION=v0.0.42 dlrun uses that
# version of the API, otherwise the newest version that dlrun and slurmrestd have in common.
#
#   $api_version          the version of the API that dlrun is expected to use
#   $slurm_version        Slurm's release
#   $jobs_path_variable   the PATH of the jobs, which has the testbed's Slurm
#   served_versions       prints the versions that the server serves, the oldest first
#   api_is_v0038          succeeds if $api_version is v0.0.38
#   start_proxy MODE...   starts rest_proxy.py between dlrun and slurmrestd, at $dir/proxy
#   stop_proxy            ends the proxy and removes its files
#   allow_servers [URL..] writes the testbed's server, the proxy, two addresses where nothing
#                         listens, and each URL into the user's configuration as allowed servers,
#                         with the version $wanted_version if it is not empty
#   via sbatch|slurmrestd prints the argument of --set that submits in this way
#   by_token              prints the options that submit over TCP with the token
#   by_proxy              prints the options that submit through the proxy
#   write_token SECONDS   writes a token of this lifetime into the file token
#   state RUN             prints the state of a run
#   is_state RUN STATE    succeeds if the run has this state
#   count_jobs            prints the number of the user's jobs
#   is_running JOB        succeeds if the job runs
#   portable ARGUMENTS... runs the portable dlrun, which uses the program curl, in $dir
#   install_portable      installs the portable dlrun, the agent and the trainer in $dir/portable;
#                         skips the test if the build has no portable dlrun
#   submit_is_refused CODE TEXT ARGUMENTS...
#                         submits with these arguments and checks the exit code and the message, and
#                         that nothing is recorded or queued

setup_file() {
    local testbed_dir=$DLRUN_TESTBED_DIR.rest
    # This testbed also has its own user, whose list of runs has no run of another test file.
    forget_testbed
    export DLRUN_TESTBED_DIR=$testbed_dir
    "$testbed/down" # A test run that was killed may have left a testbed.
    "$BATS_TEST_DIRNAME/fixture" up --rest --conf Licenses=tool:4
    load_testbed
    scontrol update nodename="n[1-3]" availablefeatures=fast activefeatures=fast
    scontrol create reservation reservationname=kept users="$DLRUN_TESTBED_USER" nodes=n4 \
        starttime=now duration=infinite
    common_dir=$(fresh_dir)
    api_version=${DLRUN_TEST_REST_VERSION:-$(served_versions |
        grep -xE 'v0\.0\.(38|4[0-5])' | tail -n 1)}
    slurm_version=$(sinfo --version)
    jobs_path_variable=${DLRUN_TESTBED_SLURM:+$DLRUN_TESTBED_SLURM/bin:}/usr/bin:/bin
    export common_dir api_version jobs_path_variable slurm_version=${slurm_version##* }
}

served_versions() {
    as_user curl -s --unix-socket "$DLRUN_TESTBED_REST_SOCKET" http://localhost/openapi/v3 |
        jq -r '.paths | keys[]' | sed -n 's#^/slurm/\(v[0-9.]*\)/job/submit$#\1#p' | sort -V
}

api_is_v0038() { [[ $api_version == v0.0.38 ]]; }

teardown_file() {
    "$testbed/down"
}

setup() {
    dir=$common_dir
    cat >"$dir/job.yaml" <<YAML
name: job
resources: {nodes: 1, tasks_per_node: 1, time: 5m}
launch: {preset: plain, command: [bash, -c, 'until [[ -e go ]]; do sleep 0.1; done']}
environment: {vars: {PATH: "$jobs_path_variable"}}
submit: {url: "unix:$DLRUN_TESTBED_REST_SOCKET"}
YAML
    rm -rf "$dir"/{go,runs,proxy,token,portable} # An earlier test may have left these files.
    wanted_version=${DLRUN_TEST_REST_VERSION-}
    allow_servers
}

teardown() {
    stop_proxy
    end_test
}

start_proxy() {
    "$testbed/as_user" "$(user_source)/tests/e2e/rest_proxy.py" "$dir/proxy" "$@" 3>&- &
    proxy=$!
    wait_until 30 test -S "$dir/proxy"
}
stop_proxy() {
    [[ -z ${proxy-} ]] || kill "$proxy" 2>/dev/null || true
    proxy=
    rm -f "$dir/proxy" "$dir"/proxy.{held,log}
}

allow_servers() {
    # shellcheck disable=SC2016 # The inner shell expands the variables.
    as_user bash -c 'mkdir -p ~/.config/dlrun/sites &&
        exec >~/.config/dlrun/sites/servers.yaml && echo slurmrestd: &&
        for url in "unix:$DLRUN_TESTBED_REST_SOCKET" "unix:$1/proxy" unix:/run/nothing; do
            echo "  - {url: $url$2}"
        done &&
        for url in "$DLRUN_TESTBED_REST_URL" http://127.0.0.1:9 "${@:3}"; do
            for token in token nosuch; do
                # The testbed runs slurmrestd as the user nobody.
                echo "  - {url: $url, token_file: $1/$token$2, user: nobody}"
            done
        done' - "$dir" "${wanted_version:+, version: $wanted_version}" "$@"
}

via() { echo "submit.via=$1"; }
state() { dl status "$1" --json | jq -r .state; }
is_state() { [[ $(state "$1") == "$2" ]]; }
count_jobs() { squeue -h -u "$DLRUN_TESTBED_USER" -o %i | wc -l; }
is_running() { [[ $(job_state "$1") == RUNNING ]]; }

write_token() {
    as_user bash -c 'umask 077 && rm -f "$1/token" && scontrol token lifespan="$2" >"$1/token"' \
        - "$dir" "$1"
}
install_portable() {
    local program=$DLRUN_BUILD_DIR/portable/bin/dlrun
    [[ -e $program ]] || skip "a build with sanitizers has no portable dlrun"
    mkdir -p "$dir/portable/bin"
    cp "$program" "$DLRUN_TESTBED_PREFIX"/bin/dlrun-{agent,trainer} "$dir/portable/bin/"
    chmod -R a+rX "$dir/portable"
}
portable() { as_user env --chdir="$dir" "$dir/portable/bin/dlrun" "$@"; }

by_token() {
    echo "--set submit.via=slurmrestd --set submit.url=$DLRUN_TESTBED_REST_URL" \
        "--set submit.token_file=$dir/token"
}
by_proxy() { echo "--set submit.via=slurmrestd --set submit.url=unix:$dir/proxy"; }

submit_is_refused() {
    local code=$1 text=$2
    shift 2
    run dl submit job.yaml "$@"
    echo "$output"
    [ "$status" -eq "$code" ]
    [[ $output == *"$text"* ]]
    [ ! -e "$dir/runs" ] || [ -z "$(ls "$dir/runs")" ]
    [ "$(count_jobs)" -eq 0 ]
}
