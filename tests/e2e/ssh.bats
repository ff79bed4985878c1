#!/usr/bin/env bats
# `dlrun -H NAME COMMAND`: the commands of dlrun over a real ssh, with every login shell; code that
# goes there; a submission that is cut at random moments; and hosts that misbehave.
#
# 20 cut submissions; DLRUN_TEST_CUTS=200 is the long run.
# timeout: 600

bats_require_minimum_version 1.5.0 # for run --separate-stderr
load helpers
load ssh

setup_file() {
    start_sshd
    export ssh_dir laptop_dir ssh_port
}

teardown_file() {
    use_shell bash
    dir=/ stop_sshd
}

setup() {
    dir=$(fresh_dir)
}

@test "ssh: every login shell passes every word, and what its files print is dropped" {
    local shell word=$'a b"c$HOME`id`!!\\n\'*?{x,y}~;|&<>()#%\t[ü]'
    for shell in "${shells[@]}"; do
        use_shell "$shell"
        run --separate-stderr laptop -H "near-$shell" ls --json
        echo "$shell: $output $stderr"
        [ "$status" = 0 ]
        jq -e . <<<"$output"
        run --separate-stderr laptop -H "near-$shell" status "$word"
        there=$stderr code=$status
        run --separate-stderr dl status "$word"
        [ "$code" = "$status" ]
        [ "$there" = "$stderr" ]
    done
}

@test "ssh: the commands of README's table in every login shell" {
    local shell run
    make_code
    for shell in "${shells[@]}"; do
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

# cut MILLISECONDS COMMAND...: runs the command on the laptop and kills it, with all its ssh, after
# that time.
cut() {
    local after=$1
    shift
    as_user env -u SLURM_CONF XDG_STATE_HOME="$laptop_dir/state" \
        XDG_CONFIG_HOME="$laptop_dir/config" XDG_RUNTIME_DIR="$laptop_dir" \
        python3 "$DLRUN_SOURCE_DIR/tests/e2e/cut_after.py" "$after" "$dir" dlrun "$@"
}

# submit_cut NUMBER MILLISECONDS: submits a job, cut after that time, and again until an answer
# comes.
submit_cut() {
    local words=(-H near submit exp.yaml --set "name=cut-$1"
        --set "launch.command=[sh, -c, 'echo \$0 >>$dir/executed', '$1']")
    cut "$2" "${words[@]}" &>"$dir/out-$1" && return
    until laptop "${words[@]}" &>>"$dir/out-$1"; do ((++failed < 5)) || return 1; done
    ((++cuts))
}

@test "ssh: a submission that is cut at random moments and sent again queues one job" {
    local wanted=${DLRUN_TEST_CUTS:-20} i cuts=0 failed=0 start
    make_code
    laptop -H near check exp.yaml
    start=${EPOCHREALTIME/./}
    submit_cut 0 100000
    local whole=$(((${EPOCHREALTIME/./} - start) / 1000))
    RANDOM=17
    for ((i = 1; i <= wanted; i++)); do
        submit_cut "$i" $((RANDOM % (whole + whole / 5) + 1)) || { cat "$dir/out-$i" && false; }
    done
    echo "$wanted submissions of $whole ms, $cuts of them cut"
    ((cuts > wanted / 4))
    wait_until $((60 + wanted)) no_jobs
    [ "$(sort -n "$dir/executed")" = "$(seq 0 "$wanted")" ]
    laptop -H near ls --all --json | jq -r '.[].name' | grep '^cut-' | sort -t- -k2n \
        >"$BATS_TEST_TMPDIR/runs"
    [ "$(<"$BATS_TEST_TMPDIR/runs")" = "$(seq -f cut-%g 0 "$wanted")" ]
}

@test "ssh: the code is copied as git lists it; deletions follow, and what only the host has stays" {
    local mirror
    make_code
    as_user mkdir "$dir/src"
    as_user touch "$dir/src/a.py" "$dir/src/b.py"
    mirror=$(laptop -H near check exp.yaml | sed -n 's|^ *runs *\(.*\)/runs$|\1|p')
    [ -e "$mirror/src/a.py" ]
    as_user touch "$mirror/src/result.txt"
    as_user rm "$dir/src/a.py"
    laptop -H near check exp.yaml
    [ ! -e "$mirror/src/a.py" ]
    [ -e "$mirror/src/b.py" ]
    [ -e "$mirror/src/result.txt" ]
}

@test "ssh: hosts that cannot be reached, and code that cannot go there, are named" {
    make_code
    refused() { # CODE TEXT COMMAND...
        local code=$1 text=$2
        shift 2
        run laptop "$@" </dev/null
        echo "$output"
        [ "$status" = "$code" ]
        [[ $output == *"$text"* ]]
    }
    refused 6 "there is no host 'nera'; did you mean 'near'?" -H nera ls
    refused 4 'Connection refused' -H lost ls
    refused 4 'HOST IDENTIFICATION HAS CHANGED' -H odd ls
    refused 4 'dlrun host login locked' -H locked ls
    host_file near 'sync: {max: 1K}'
    as_user dd if=/dev/zero of="$dir/weights" bs=1M count=3 status=none
    refused 2 'weights' -H near submit exp.yaml
    as_user rm "$dir/weights"
    host_file near 'root: /proc/nowhere'
    refused 1 '/proc/nowhere' -H near submit exp.yaml
    host_file near "root: \$SCRATCH/me"
    refused 2 'SCRATCH' -H near submit exp.yaml
    host_file near
    as_user tee "$dir/bad.yaml" >/dev/null <<<'base: ../elsewhere.yaml'
    refused 2 "bad.yaml:1:7: error: base: '../elsewhere.yaml' leaves the tree" -H near check bad.yaml
    no_jobs
}

@test "ssh: a host that answers garbage, floods or sends escape sequences does no harm" {
    make_code
    as_user mkdir "$dir/bin"
    as_user tee "$dir/bin/dlrun" >/dev/null <<'PY'
#!/usr/bin/env python3
import base64, os, sys
word = sys.argv[2]
fields = base64.urlsafe_b64decode(word + '=' * (-len(word) % 4)).split(b'\0')
nonce = next(f[6:] for f in fields if f.startswith(b'nonce='))
kind = open(os.path.dirname(sys.argv[0]) + '/kind').read().strip()
if kind == 'silent flood':
    sys.stdout.write('x' * 100_000_000)
    sys.exit()
sys.stderr.flush()
os.write(1, b'<dlrun ' + nonce + b' 9>\n')
os.write(2, b'<dlrun ' + nonce + b' 9>\n')
os.write(1, {'escapes': b'\x1b]0;owned\x07\x1b[2Jtext\n', 'garbage': b'\0\xff{{{\n',
             'flood': b'y' * 3_000_000}[kind])
PY
    as_user chmod +x "$dir/bin/dlrun"
    host_file near "dlrun: $dir/bin/dlrun"
    as_user tee "$dir/bin/kind" >/dev/null <<<'escapes'
    run as_user env XDG_CONFIG_HOME="$laptop_dir/config" XDG_RUNTIME_DIR="$laptop_dir" \
        XDG_STATE_HOME="$laptop_dir/state" script -qec 'dlrun -H near ls' /dev/null
    echo "$output"
    [[ $output == *'\x1b]0;owned\x07'* && $output == *text* && $output != *$'\e]0'* ]]
    for kind in garbage flood 'silent flood'; do
        as_user tee "$dir/bin/kind" >/dev/null <<<"$kind"
        run laptop -H near submit exp.yaml </dev/null
        echo "$kind: ${output:0:500}"
        [ "$status" != 0 ]
        [ ${#output} -lt 5000 ]
    done
    host_file near
    no_jobs
}

@test "ssh: dlrun: auto copies dlrun once; host check, list, login and forget; a full or noexec home" {
    local cache=$DLRUN_TESTBED_HOME/.cache/dlrun
    as_user rm -rf "$cache"
    host_file near 'dlrun: auto'
    run laptop host check near
    echo "$output"
    [ "$status" = 0 ]
    [[ $output == *'(copied now)'* ]]
    laptop -H near ls
    [ "$(as_user find "$cache" -name dlrun-agent | wc -l)" = 1 ]
    as_user rm -rf "$cache" # A later command notices it.
    laptop -H near ls
    laptop host list --json | jq -e '.[] | select(.name == "near") | .connected'
    laptop host forget near
    laptop host list --json | jq -e '.[] | select(.name == "near") | .connected | not'
    host_file near 'dlrun: auto' 'master: existing'
    run laptop -H near ls
    [ "$status" = 4 ]
    [[ $output == *'dlrun host login near'* ]]
    laptop host login near
    laptop -H near ls
    as_user rm -rf "$cache"
    as_user mkdir "$cache"
    local options
    for options in size=1M noexec; do
        mount -t tmpfs -o "mode=777,$options" none "$cache"
        run laptop -H near ls
        umount "$cache"
        echo "$output"
        [ "$status" = 1 ]
        [[ $output == *'could not be copied'* && $output == *'dlrun: PATH'* ]]
    done
    host_file near
}

@test "ssh: pull copies a run's files, deletes nothing, and writes nothing outside its folder" {
    local run path
    make_code
    run=$(laptop -H near submit exp.yaml --json | jq -r .run)
    laptop -H near wait "$run"
    path=$(laptop -H near status "$run" --json | jq -r .path)
    as_user mkdir -p "$path/ckpt" "$dir/$run/ckpt"
    as_user bash -c "echo weights >'$path/ckpt/a b.pt'; echo mine >'$dir/$run/ckpt/own'"
    as_user ln -s "$DLRUN_TESTBED_HOME" "$path/ckpt/home"
    as_user ln -s /etc/passwd "$path/passwd"
    laptop -H near pull "$run" '*.pt'
    [ "$(<"$dir/$run/ckpt/a b.pt")" = weights ]
    [ "$(<"$dir/$run/ckpt/own")" = mine ]
    [ ! -e "$dir/$run/job.sh" ]
    laptop -H near pull "$run" --to all
    diff "$path/job.sh" "$dir/all/job.sh"
    [ ! -e "$dir/all/passwd" ] && [ ! -L "$dir/all/passwd" ]
    [ ! -e "$dir/all/ckpt/home" ] && [ ! -L "$dir/all/ckpt/home" ]
    # A host that names other folders: the answer about the run, and names in rsync's stream.
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
else: # Sends the file with its path from above the folder, whatever was asked for.
    os.chdir(here + '/evil')
    os.execvp('rsync', ['rsync', '--server', '--sender', '-logDtprRze.iLsfxCIvu', '.',
                        '../../' + os.path.basename(here) + '/secret'])
PY
    as_user chmod +x "$dir/bin/dlrun"
    as_user tee "$dir/secret" >/dev/null <<<"from outside"
    host_file near "dlrun: $dir/bin/dlrun"
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
    [ "$(find "$dir/inside" -name secret ! -path "$dir/inside/*" | wc -l)" = 0 ]
    [ "$(find "$DLRUN_TESTBED_HOME" -maxdepth 1 -name secret | wc -l)" = 0 ]
    host_file near
}

@test "ssh: on the host itself no ssh is started" {
    as_user bash -c "printf 'Host here\n    HostName %s\n    ProxyCommand none\n' \$(hostname) \
        >>~/.ssh/config"
    host_file here
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

@test "ssh: a command ends on the host when the connection ends, and Ctrl-C reaches it" {
    make_code
    as_user tee "$dir/long.yaml" >/dev/null <<'YAML'
resources: {nodes: 1, tasks_per_node: 1, time: 5m}
launch: {preset: plain, command: [sleep, 300]}
YAML
    run=$(laptop -H near submit long.yaml --json | jq -r .run)
    following() { as_user pgrep -u "$DLRUN_TESTBED_USER" -f "remote .*" >/dev/null; }
    gone() { ! following; }
    cut 3000 -H near logs -f "$run" || [ $? = 137 ]
    wait_until 15 gone
    run as_user env -u SLURM_CONF XDG_STATE_HOME="$laptop_dir/state" \
        XDG_CONFIG_HOME="$laptop_dir/config" XDG_RUNTIME_DIR="$laptop_dir" \
        timeout -s INT 3 dlrun -H near logs -f "$run"
    echo "$output"
    wait_until 15 gone
    laptop -H near status "$run" --json | jq -e '.state == "running" or .state == "pending"'
}
