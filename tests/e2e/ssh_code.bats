#!/usr/bin/env bats
# `dlrun -H NAME`: the copy of the code on the host, and code that cannot be copied.
#
# timeout: 300

load helpers
load ssh

@test "the host gets files that git lists, loses those no longer listed, and keeps all other files" {
    local mirror
    make_code
    as_user mkdir "$dir/src" "$dir/old"
    as_user touch "$dir/src/a.py" "$dir/src/b.py" "$dir/#odd" "$dir/;odd" "$dir/src/[ab]*\\.py" \
        "$dir/old/c.py"
    mirror=$(laptop -H near check exp.yaml | sed -n 's|^ *runs *\(.*\)/runs$|\1|p')
    [ -e "$mirror/src/a.py" ]
    [[ -e $mirror/#odd && -e "$mirror/;odd" ]] # rsync takes such names for comments
    [ -e "$mirror/src/[ab]*\\.py" ] # rsync's rules take such names for patterns
    as_user touch "$mirror/src/result.txt" "$mirror/old/result.txt"
    as_user rm "$dir/src/a.py" "$dir/src/[ab]*\\.py" "$dir/#odd" "$dir/old/c.py"
    as_user rmdir "$dir/old"
    laptop -H near check exp.yaml
    [[ ! -e $mirror/src/a.py && ! -e "$mirror/src/[ab]*\\.py" && ! -e $mirror/#odd ]]
    [[ -e $mirror/src/b.py && -e "$mirror/;odd" && -e $mirror/src/result.txt ]]
    [[ ! -e $mirror/old/c.py && -e $mirror/old/result.txt ]]
    # On the host, a link replaces a folder of the copy. dlrun deletes no file in the link's target.
    as_user mkdir "$dir/data"
    as_user touch "$dir/data/b" "$dir/data/c"
    laptop -H near check exp.yaml
    as_user mv "$mirror/data" "$dir.elsewhere"
    as_user ln -s "$dir.elsewhere" "$mirror/data"
    as_user rm "$dir/data/b"
    laptop -H near check exp.yaml
    [[ -e $dir.elsewhere/b && -e $mirror/data/c && ! -L $mirror/data && ! -e $mirror/data/b ]]
    # On the laptop, a link replaces a folder.
    as_user mv "$dir/data" "$dir/data-2"
    as_user ln -s data-2 "$dir/data"
    laptop -H near check exp.yaml
    [[ -L $mirror/data && -e $mirror/data-2/c ]]
    # On the laptop, a file replaces a folder.
    as_user rm -r "$dir/src"
    as_user rm "$mirror/src/result.txt"
    as_user touch "$dir/src"
    laptop -H near check exp.yaml
    [ -f "$mirror/src" ]
}

@test "rsync starts only if a file has changed on the laptop or in the copy" {
    local mirror
    make_code
    as_user touch -d 2020-01-01 "$dir/a.py"
    mirror=$(laptop -H near check exp.yaml | sed -n 's|^ *runs *\(.*\)/runs$|\1|p')
    # This rsync always fails, so a command that succeeds has not started rsync.
    as_user mkdir -p "$laptop_dir/bin"
    as_user bash -c 'printf "#!/bin/sh\necho started >&2; exit 9\n" >"$1" && chmod 755 "$1"' - \
        "$laptop_dir/bin/rsync"
    # shellcheck disable=SC2016 # the inner bash expands the variables
    with_failing_rsync() {
        laptop_env bash -c 'cd "$1" && PATH=$2:$PATH && shift 2 && exec dlrun "$@"' - "$dir" \
            "$laptop_dir/bin" "$@"
    }
    with_failing_rsync -H near check exp.yaml
    with_failing_rsync -H near render exp.yaml
    as_user touch "$mirror/a.py" # a job has written the file
    check_starts_rsync() {
        run with_failing_rsync -H near check exp.yaml
        echo "$output"
        [[ $status == 1 && $output == *"exit code of rsync: 9"* ]]
    }
    check_starts_rsync
    laptop -H near check exp.yaml
    [ "$(stat -c %Y "$mirror/a.py")" = "$(stat -c %Y "$dir/a.py")" ]
    with_failing_rsync -H near check exp.yaml
    as_user touch "$dir/new.py"
    check_starts_rsync
    laptop -H near check exp.yaml
    with_failing_rsync -H near check exp.yaml
}

@test "code that cannot be copied, and specs that a host cannot use, are refused before queueing" {
    make_code
    write_host_file near 'sync: {max: 1K}'
    as_user dd if=/dev/zero of="$dir/weights" bs=1M count=3 status=none
    is_refused 2 'weights' -H near submit exp.yaml
    as_user rm "$dir/weights"
    write_host_file near 'root: /proc/nowhere'
    is_refused 1 '/proc/nowhere' -H near submit exp.yaml
    write_host_file near "root: \$SCRATCH/me"
    is_refused 2 'SCRATCH' -H near submit exp.yaml
    write_host_file near
    as_user tee "$dir/bad.yaml" >/dev/null <<<'base: ../elsewhere.yaml'
    is_refused 2 "bad.yaml:1:7: error: base: '../elsewhere.yaml' leaves the repository" \
        -H near check bad.yaml
    as_user rm "$dir/bad.yaml"
    as_user tee "$dir/bad.yaml" >/dev/null <<YAML
launch: {command: ["true"]}
environment: {venv: $dir/venv}
YAML
    is_refused 2 'is a path on this machine' -H near check bad.yaml
    as_user tee "$dir/bad.yaml" >/dev/null <<'YAML'
resources: {time: 5m}
launch: {command: [sleep, "{x}"]}
sweep: {parameters: {x: {min: 1, max: 9}}, ask: ["true"]}
YAML
    is_refused 2 'a search cannot be submitted with -H' -H near submit bad.yaml
    no_jobs
}

@test "if the folder for copies of code is full or noexec, the error says why or what to check" {
    local options root
    make_code
    root=$(as_user mktemp -d "$DLRUN_TESTBED_HOME/root.XXXXXX")
    write_host_file near "root: $root"
    as_user dd if=/dev/urandom of="$dir/weights" bs=1M count=3 status=none
    for options in size=1M noexec; do
        mount -t tmpfs -o "mode=1777,$options" none "$root"
        run laptop -H near submit exp.yaml </dev/null
        wait_until 10 umount -q "$root" # the command on the host may end a little later
        echo "$options: $output"
        [ "$status" = 1 ]
        if [[ $options == noexec ]]; then
            [[ $output == *noexec* ]]
        else # rsync sometimes prints no reason
            [[ $output == *"Check on near whether"*"your quota is full"*"df -h $root"* ]]
        fi
    done
    write_host_file near
    no_jobs
}

@test "if the connection is lost while code is copied, dlrun exits with 4 and submits nothing" {
    make_code
    write_host_file far
    as_user dd if=/dev/urandom of="$dir/weights" bs=1M count=60 status=none
    laptop -H far submit exp.yaml </dev/null >"$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
    local submission=$!
    # SIGSTOP suspends rsync on the host, so the copy cannot end before the connection does.
    stop_copy() { as_user pkill -STOP -u "$DLRUN_TESTBED_USER" -f '^rsync --server'; }
    wait_until 30 stop_copy
    as_user pkill -KILL -u "$DLRUN_TESTBED_USER" -f '^ssh -M -N -f .* far$'
    as_user pkill -CONT -u "$DLRUN_TESTBED_USER" -f '^rsync --server'
    local code=0
    wait "$submission" || code=$?
    cat "$BATS_TEST_TMPDIR/out"
    [ "$code" -eq 4 ]
    grep -q 'the code could not be copied' "$BATS_TEST_TMPDIR/out"
    no_jobs
}

@test "a submission fails while another process holds the lock of the copy, and then succeeds" {
    local lock holder
    make_code
    laptop -H near check exp.yaml
    lock=$(find "$DLRUN_TESTBED_HOME/mirrors" -maxdepth 1 -name '.*.lock' -newer "$dir/message")
    as_user flock "$lock" sh -c \
        "touch '$dir/held'; until [ -e '$dir/release' ]; do sleep 0.1; done" 3>&- &
    holder=$!
    wait_until 10 test -e "$dir/held"
    run laptop -H near submit exp.yaml </dev/null
    as_user touch "$dir/release"
    wait "$holder"
    echo "$output"
    [ "$status" = 4 ]
    [[ $output == *'or its sbatch, uses this copy of the code'* ]]
    no_jobs
    laptop -H near submit exp.yaml
}

@test "a run records the commit and the uncommitted changes of the laptop's repository" {
    local run path
    make_code
    as_user git -C "$dir" add .
    as_user git -C "$dir" -c user.name=a -c user.email=a@b commit -qm one
    as_user tee "$dir/message" >/dev/null <<<"hello again from the laptop"
    run=$(laptop -H near submit exp.yaml --json | jq -r .run)
    path=$(laptop -H near status "$run" --json | jq -r .path)
    [ "$(jq -r .git.commit "$path/provenance.json")" = \
        "$(as_user git -C "$dir" rev-parse HEAD)" ]
    jq -e .git.dirty "$path/provenance.json"
    grep -q '^+hello again from the laptop' "$path/tree.patch"
}
