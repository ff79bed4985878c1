#!/usr/bin/env bats
# train.data.download and download: files are fetched once, on the submitting machine, before a job
# is queued, and are verified.
# timeout: 180

load helpers

names=(train-images-idx3-ubyte train-labels-idx1-ubyte t10k-images-idx3-ubyte
    t10k-labels-idx1-ubyte)

setup() {
    dir=$(fresh_dir)
    as_user dlrun-trainer digits --out "$dir/served" --train 256 --test 64
}

teardown() {
    [[ -z ${server-} ]] || kill "$server" 2>/dev/null || true
    end_test
}

# serve [CERTIFICATE KEY]: starts a server of $dir/served (tests/file_server.py) and waits until it
# listens; sets server and server_address
serve() {
    as_user mkfifo "$dir/stdin"
    "$testbed/as_user" bash -c 'exec "$@" <>"$0"' "$dir/stdin" \
        "$(user_source)/tests/file_server.py" "$dir/served" "$dir/port" "$@" 3>&- &
    server=$!
    wait_until 30 test -s "$dir/port"
    server_address=127.0.0.1:$(<"$dir/port")
}

# write_spec FILE [URL [SHA256]]: writes an experiment that downloads the four files in names. URL
# and SHA256 replace those of the fourth file.
write_spec() {
    local name sum url
    {
        printf 'name: fetched\nresources: {nodes: 2, tasks_per_node: 1, time: 5m}\n'
        printf 'train:\n  model: mlp\n  hidden: [16]\n  epochs: 1\n  batch: 16\n'
        printf '  data:\n    dataset: mnist\n    path: ./data\n    download:\n'
        for name in "${names[@]}"; do
            sum=$(sha256sum <"$dir/served/$name") url=http://$server_address/$name
            [[ $name != "${names[3]}" ]] || sum=${3:-${sum%% *}} url=${2:-$url}
            printf -- '    - {url: "%s", sha256: %s, file: %s}\n' "$url" "${sum%% *}" "$name"
        done
    } >"$dir/$1"
    chown "$DLRUN_TESTBED_USER:" "$dir/$1"
}

# write_spec_without_trainer NAME: writes any.yaml, a job that does not use the trainer. dlrun
# downloads the file NAME for the job.
write_spec_without_trainer() {
    local name=$1 sum
    sum=$(sha256sum <"$dir/served/$name")
    cat >"$dir/any.yaml" <<YAML
name: any
resources: {nodes: 1, time: 5m}
download:
  path: ./fetched
  files: [{url: "http://$server_address/$name", sha256: ${sum%% *}}]
stage: [{from: ./fetched, to: \$TMPDIR/fetched-$$}]
launch:
  preset: plain
  command: [bash, -c, 'cmp \$DLRUN_DOWNLOADS/$name \$TMPDIR/fetched-$$/$name']
YAML
    chown "$DLRUN_TESTBED_USER:" "$dir/any.yaml"
}

# Succeeds if no job and no run exists, as after a refused submission.
no_job_and_no_run() { no_jobs && [[ ! -e $dir/runs || -z $(ls "$dir/runs") ]]; }
request_count() { grep -c "^/$1 from" "$dir/port.log"; }

@test "files are fetched once before queueing, and a wrong checksum queues nothing" {
    serve
    write_spec good.yaml
    write_spec bad.yaml "" "$(printf 'a%.0s' {1..64})"
    # `check` makes no request and lists the missing files.
    run dl check good.yaml
    echo "$output"
    [ "$status" -eq 0 ]
    message='downloads them'
    [[ $output == *"$message: train-images-idx3-ubyte, "*", t10k-labels-idx1-ubyte"* ]]
    [ ! -e "$dir/port.log" ]
    # A wrong checksum is refused with its line in the spec. The file with this checksum is not
    # kept; the three others are.
    run as_user strace -f -qq -y -e trace=fsync,renameat2 \
        -o "$dir/calls" bash -c 'cd "$1" && exec dlrun submit bad.yaml' - "$dir"
    echo "$output"
    [ "$status" -eq 2 ]
    served_sum=$(sha256sum <"$dir/served/${names[3]}")
    [[ $output == *"bad.yaml:15:"*"have the sha256 ${served_sum%% *}, but the spec says aaaa"* ]]
    no_job_and_no_run
    # The file is synced before it gets its name, and the name is synced before the file counts
    # as downloaded.
    unfinished=/data/.${names[0]}
    renamed="/data/${names[0]}\", RENAME_NOREPLACE) = 0"
    [[ $(<"$dir/calls") \
        == *"fsync("*"$unfinished."*".part>) = 0"*"renameat2("*"$renamed"*"fsync("*"/data>) = 0"* ]]
    [ "$(ls "$dir/data")" \
        = $'t10k-images-idx3-ubyte\ntrain-images-idx3-ubyte\ntrain-labels-idx1-ubyte' ]
    # Two submissions run at the same time. The first three files already exist.
    dl submit good.yaml &
    first=$!
    run dl submit good.yaml
    echo "$output"
    [ "$status" -eq 0 ]
    wait "$first"
    for name in "${names[@]:0:3}"; do [ "$(request_count "$name")" -eq 1 ]; done
    [ "$(request_count "${names[3]}")" -eq 2 ] # for bad.yaml, and for one of the two submissions
    dl wait last
    [ "$(dl status last --json | jq -r .state)" = completed ]
    finished_run=$(dl status last --json | jq -r .run)
    # A stand-in of sbatch refuses the array of a sweep. The sweep is resubmitted below.
    as_user bash -c 'cd "$1" && cp good.yaml sweep.yaml &&
            echo "sweep: {parameters: {train.seed: [1, 2]}}" >>sweep.yaml
        error="Batch job submission failed: Invalid qos specification"
        mkdir bin && printf "#!/bin/sh\necho sbatch: error: $error >&2; exit 1\n" >bin/sbatch
        chmod 755 bin/sbatch' - "$dir"
    run as_user bash -c 'cd "$1" && PATH=$1/bin:$PATH exec dlrun submit sweep.yaml' - "$dir"
    echo "$output"
    [ "$status" -eq 3 ]
    refused_run=$(dl status last --json | jq -r .run)
    # Without the server, existing files are used for training; the resolved spec says where they
    # came from.
    kill "$server"
    wait "$server" || true
    cancel_jobs
    run dl run good.yaml --json
    echo "$output"
    [ "$status" -eq 0 ]
    resolved=$(dl status last --json | jq -r .path)/resolved.yaml
    recorded="\"url\": \"http://$server_address/${names[3]}\", \"sha256\": \"${served_sum%% *}\""
    grep -q "download: .*$recorded" "$resolved"
    run dl check good.yaml --json
    [ "$(jq -c .downloads <<<"$output")" = "[]" ]
    # A file that is missing now cannot be fetched, so no command may start a job.
    runs=$(ls "$dir/runs")
    rm "$dir/data/${names[0]}"
    dl render good.yaml -o job.sh
    for command in "submit good.yaml" "submit job.sh" "run good.yaml" \
        "interactive good.yaml -- true" "resubmit $finished_run" \
        "submit sweep.yaml" "resubmit $refused_run"; do
        # shellcheck disable=SC2086 # splits the words
        run dl $command
        echo "$command: $output"
        [ "$status" -eq 1 ]
        [[ $output == *"train.data.download: http://$server_address/${names[0]}: "*connect* ]]
        no_jobs
        [ "$(ls "$dir/runs")" = "$runs" ]
    done
    # A different file of the same name is the user's, and dlrun does not replace it.
    as_user bash -c 'echo precious >"$1"' - "$dir/data/${names[0]}"
    for command in check submit; do
        run dl $command good.yaml
        echo "$output"
        [ "$status" -eq 2 ]
        [[ $output == *"good.yaml:12:"*"data/${names[0]}: has the sha256 $(sha256sum <<<precious |
            cut -d' ' -f1), but the spec says "* ]]
    done
    [ "$(<"$dir/data/${names[0]}")" = precious ]
    no_jobs
}

@test "a download shows its progress on a terminal, and Ctrl-C ends it and leaves no file" {
    serve
    write_spec stalls.yaml "http://$server_address/stall/${names[3]}"
    # The exit code of script(1) is not always that of its command.
    cat >"$dir/submit" <<'SH'
bash -c 'echo $$ >pid; exec dlrun submit stalls.yaml'
echo $? >code
SH
    "$testbed/as_user" bash -c 'cd "$1" && exec script -qfc "bash submit" seen' - "$dir" \
        </dev/null >/dev/null 3>&- &
    submitter=$!
    wait_until 30 grep -q 't10k-labels-idx1-ubyte (4 of 4): 0.0 KiB of 0.1 KiB (50 %), .*/s' \
        "$dir/seen"
    [ -n "$(find "$dir/data" -name '.t10k-labels*.part')" ]
    kill -INT "$(<"$dir/pid")"
    wait "$submitter" || true
    cat "$dir/seen"
    [ "$(<"$dir/code")" -eq 130 ]
    grep -q "interrupted; nothing of http://$server_address/stall/${names[3]} is kept" "$dir/seen"
    [ -z "$(find "$dir/data" -name '*t10k-labels*')" ]
    no_job_and_no_run
    # On a terminal narrower than the line, the name is cut, and each line overwrites the one
    # before it.
    sed -i '1i stty cols 60 rows 24' "$dir/submit"
    rm -f "$dir/pid"
    "$testbed/as_user" bash -c 'cd "$1" && exec script -qfc "bash submit" seen' - "$dir" \
        </dev/null >/dev/null 3>&- &
    submitter=$!
    wait_until 30 grep -q 't10k-labels.*\.\.\.: 0.0 KiB of 0.1 KiB (50 %), .*/s' "$dir/seen"
    kill -INT "$(<"$dir/pid")"
    wait "$submitter" || true
    tr '\r' '\n' <"$dir/seen" | grep -a '50 %' | sed 's/\x1b\[K.*//' >"$dir/lines"
    cat "$dir/lines"
    [ -s "$dir/lines" ]
    [ "$(wc -L <"$dir/lines")" -lt 60 ]
}

@test "dlrun says that it waits for another download, and reports a folder that cannot be made" {
    serve
    write_spec good.yaml
    as_user mkdir "$dir/data"
    "$testbed/as_user" bash -c 'exec 9<>"$1/data/.dlrun-downloads" && flock 9 &&
        echo $$ >"$1/held" && exec sleep 60' \
        - "$dir" 3>&- &
    holder=$!
    wait_until 30 test -s "$dir/held"
    "$testbed/as_user" bash -c 'cd "$1" && echo $$ >pid && exec dlrun submit good.yaml 2>err' \
        - "$dir" 3>&- &
    submitter=$!
    wait_until 30 grep -q "waiting for another dlrun that downloads into $dir/data" "$dir/err"
    kill -INT "$(<"$dir/pid")"
    code=0
    wait "$submitter" || code=$?
    cat "$dir/err"
    [ "$code" -eq 130 ]
    [ "$(grep -c waiting "$dir/err")" -eq 1 ]
    kill "$(<"$dir/held")"
    wait "$holder" || true
    rm -r "$dir/data"
    as_user ln -s nowhere "$dir/data"
    run dl submit good.yaml
    echo "$output"
    [ "$status" -eq 1 ]
    message="cannot make the folder $dir/data: a symbolic link of that name leads nowhere"
    [[ $output == *"good.yaml:10:"*"train.data.path: $message"* ]]
    no_job_and_no_run
}

# Runs dlrun as on a machine that trusts only the certificate of the test's server.
dl_trusting() {
    unshare --mount bash -c 'mount --bind "$1" /etc/ssl/certs/ca-certificates.crt && shift &&
        exec "$@"' \
        - "$dir/server.pem" \
        "$testbed/as_user" bash -c 'cd "$1" && shift && exec dlrun "$@"' - "$dir" "$@"
}

@test "over https: the server's certificate is checked, and a redirection to http is not followed" {
    as_user openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=test \
        -addext subjectAltName=IP:127.0.0.1 \
        -keyout "$dir/server.key" -out "$dir/server.pem" 2>/dev/null
    serve "$dir/server.pem" "$dir/server.key"
    # This path redirects to another https path of the same server, which dlrun follows.
    server_address=$server_address/here
    write_spec good.yaml
    sed -i 's,http://,https://,' "$dir/good.yaml"
    run dl submit good.yaml
    echo "$output"
    [ "$status" -eq 1 ]
    [[ $output == *"good.yaml:12:"*certificate* ]]
    no_job_and_no_run
    server_address=${server_address%/here}
    write_spec plain.yaml "http://$server_address/to-plain/${names[3]}"
    sed -i 's,http://,https://,' "$dir/plain.yaml"
    run dl_trusting submit plain.yaml
    echo "$output"
    [ "$status" -eq 1 ]
    [[ $output == *"plain.yaml:15:"*"does not start with https://; dlrun does not follow it"* ]]
    no_job_and_no_run
    run dl_trusting submit good.yaml
    echo "$output"
    [ "$status" -eq 0 ]
    cmp "$dir/served/${names[3]}" "$dir/data/${names[3]}"
}

@test "a job without the trainer finds its downloads through a variable, and can stage them" {
    serve
    local name=${names[0]}
    write_spec_without_trainer "$name"
    run dl check any.yaml
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"$name"* ]]
    run dl submit any.yaml --watch
    echo "$output"
    [ "$status" -eq 0 ]
    cmp "$dir/fetched/$name" "$dir/served/$name"
}
