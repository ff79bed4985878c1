#!/usr/bin/env bats
# `dlrun -H NAME`: pull, terminals, sweeps, and commands whose connection ends.
#
# timeout: 300

load helpers
load ssh

long_spec='resources: {nodes: 1, tasks_per_node: 1, time: 5m}
launch: {preset: plain, command: [sleep, 300]}'

@test "pull copies a run's files, deletes nothing, and writes only into its target folder" {
    local run path
    make_code
    run=$(laptop -H near submit exp.yaml --json | jq -r .run)
    laptop -H near wait "$run"
    laptop -v -H near submit exp.yaml --watch 2>&1 | grep -q 'completed'
    path=$(laptop -H near status "$run" --json | jq -r .path)
    as_user mkdir -p "$path/ckpt" "$dir/$run/ckpt"
    as_user bash -c "echo weights >'$path/ckpt/a b.pt'; echo mine >'$dir/$run/ckpt/own'"
    as_user ln -s "$DLRUN_TESTBED_HOME" "$path/ckpt/home"
    as_user ln -s /etc/passwd "$path/passwd"
    laptop -H near pull "$run" '*.pt'
    [ "$(<"$dir/$run/ckpt/a b.pt")" = weights ]
    [ "$(<"$dir/$run/ckpt/own")" = mine ]
    [ ! -e "$dir/$run/job.sh" ]
    as_user chmod 6777 "$path/ckpt/a b.pt"
    laptop -H near pull "$run" --to all
    [ "$(stat -c %a "$dir/all/ckpt/a b.pt")" = 755 ] # no setuid bit, and nobody else can write it
    diff "$path/job.sh" "$dir/all/job.sh"
    [ ! -e "$dir/all/passwd" ] && [ ! -L "$dir/all/passwd" ]
    [ ! -e "$dir/all/ckpt/home" ] && [ ! -L "$dir/all/ckpt/home" ]
    # A hostile host answers with a run id that is a path, or its rsync sends a file of another
    # folder.
    as_user mkdir "$dir/bin" "$dir/evil"
    as_user tee "$dir/bin/dlrun" >/dev/null <<'PY'
#!/usr/bin/env python3
import base64, json, os, sys
word = sys.argv[2]
fields = base64.urlsafe_b64decode(word + '=' * (-len(word) % 4)).split(b'\0')
nonce = next(f[6:] for f in fields if f.startswith(b'nonce='))
os.write(1, b'<dlrun ' + nonce + b' 9>\n')
os.write(2, b'<dlrun ' + nonce + b' 9>\n')
here = os.path.dirname(os.path.dirname(os.path.abspath(sys.argv[0])))
if b'status' in fields:
    run = open(here + '/id').read().strip()
    print(json.dumps({'run': run, 'path': here + '/evil'}))
else: # Sends a file from outside the run's folder, whatever was requested.
    os.chdir(here + '/evil')
    os.execvp('rsync', ['rsync', '--server', '--sender', '-logDtprRze.iLsfxCIvu', '.',
                        '../../' + os.path.basename(here) + '/secret'])
PY
    as_user chmod +x "$dir/bin/dlrun"
    as_user tee "$dir/secret" >/dev/null <<<"from outside"
    write_host_file near "dlrun: $dir/bin/dlrun"
    for id in ../up /abs a/../b '' .hidden; do
        as_user tee "$dir/id" >/dev/null <<<"$id"
        run laptop -H near pull last
        echo "$output"
        [ "$status" = 2 ]
        [[ $output == *'is no id of a run'* ]]
    done
    as_user tee "$dir/id" >/dev/null <<<a-run
    run laptop -H near pull last --to inside
    echo "$output"
    [ "$(find "$dir" -name secret ! -path "$dir/secret" ! -path "$dir/inside/*" | wc -l)" = 0 ]
    [ "$(find "$DLRUN_TESTBED_HOME" -maxdepth 1 -name secret | wc -l)" = 0 ]
    write_host_file near
}

@test "on the host itself dlrun opens no ssh connection" {
    as_user bash -c "printf 'Host here\n    HostName %s\n    ProxyCommand none\n' \$(hostname) \
        >>~/.ssh/config"
    write_host_file here
    as_user mkdir "$dir/bin"
    as_user tee "$dir/bin/ssh" >/dev/null <<'SH'
#!/bin/sh
[ "$1" = -G ] || echo "$@" >>"${0%/*}/calls"
exec /usr/bin/ssh "$@"
SH
    as_user chmod +x "$dir/bin/ssh"
    as_user env PATH="$dir/bin:$(as_user printenv PATH)" XDG_CONFIG_HOME="$laptop_dir/config" \
        DLRUN_HOST=here dlrun ls --json | jq -e .
    [ ! -e "$dir/bin/calls" ]
}

@test "a command on the host ends on Ctrl-C or when the connection ends, and the job continues" {
    make_code
    as_user tee "$dir/long.yaml" >/dev/null <<<"$long_spec"
    run=$(laptop -H near submit long.yaml --json | jq -r .run)
    remote_dlrun_is_gone() {
        ! as_user pgrep -u "$DLRUN_TESTBED_USER" -f 'dlrun --remote' >/dev/null
    }
    cut_after 3000 -H near logs -f "$run" || [ $? = 137 ]
    wait_until 15 remote_dlrun_is_gone
    run laptop_env timeout -s INT 3 dlrun -H near logs -f "$run"
    echo "$output"
    wait_until 15 remote_dlrun_is_gone
    laptop -H near status "$run" --json | jq -e '.state == "running" or .state == "pending"'
}

# on_terminal COMMAND: runs a shell command line on the laptop, on a terminal of 30 lines and 100
# columns.
on_terminal() {
    laptop_env TERM=xterm script -qec "stty cols 100 rows 30; cd '$dir'; $1" /dev/null </dev/null
}

@test "interactive, attach and top get a terminal on the host, and interactive reads local stdin" {
    local run
    make_code
    run on_terminal \
        "dlrun -H near interactive exp.yaml -- sh -c 'test -t 0 && cat message && exit 7'"
    echo "$status: $output"
    [ "$status" = 7 ]
    [[ $output == *'hello from the laptop'* ]]
    run laptop -H near interactive exp.yaml -- sh -c 'cat; exit 255' <<<"passed through"
    echo "$output"
    [ "$status" = 255 ]
    [[ $output == *'passed through'* ]]
    as_user tee "$dir/long.yaml" >/dev/null <<<"$long_spec"
    run=$(laptop -H near submit long.yaml --json | jq -r .run)
    wait_until 30 is_running "$run"
    run on_terminal "dlrun -H near attach $run -- sh -c 'stty size; exit 9'"
    echo "$output"
    [ "$status" = 9 ]
    [[ $output == *'30 100'* ]]
    run on_terminal "timeout --foreground -s INT 5 dlrun -H near top $run"
    echo "$output"
    [[ $output == *"$run"* ]]
}

is_running() { laptop -H near status "$1" --json | jq -e '.state == "running"'; }

@test "a sweep is submitted over ssh with all its points" {
    local run
    make_code
    run=$(laptop -H near submit sweep.yaml --json | jq -r .run)
    wait_until 60 no_jobs
    run laptop -H near ls
    echo "$output"
    [[ $output == *'2 points: 2 completed'* ]]
    run laptop -H near logs last
    [[ $output == *'hello from the laptop'* ]]
    run laptop -H near sweep last
    [ "$status" = 0 ]
}
