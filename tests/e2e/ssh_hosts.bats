#!/usr/bin/env bats
# `dlrun -H NAME` and `dlrun host` with hosts that are unreachable, hostile, or without dlrun.
#
# timeout: 300

load helpers
load ssh

@test "an error says if a host is unknown or unreachable, has another key, or rejects our key" {
    make_code
    is_refused 6 "there is no host 'nera'; did you mean 'near'?" -H nera ls
    is_refused 4 'Connection refused' -H lost ls
    is_refused 4 'HOST IDENTIFICATION HAS CHANGED' -H odd ls
    is_refused 4 'dlrun host login locked' -H locked ls
    write_host_file locked 'master: none'
    is_refused 4 'master: auto' -H locked ls
    write_host_file locked
    is_refused 4 'Connection refused' -H lost submit exp.yaml
    no_jobs
}

@test "a host that answers garbage, floods or sends escape sequences does no harm" {
    make_code
    as_user mkdir "$dir/bin"
    as_user tee "$dir/bin/dlrun" >/dev/null <<'PY'
#!/usr/bin/env python3
import base64, os, sys
word = sys.argv[2]
fields = base64.urlsafe_b64decode(word + '=' * (-len(word) % 4)).split(b'\0')
nonce = next(f[6:] for f in fields if f.startswith(b'nonce='))
kind = open(os.path.dirname(sys.argv[0]) + '/kind').read().strip()
if kind == 'unmarked flood':
    sys.stdout.write('x' * 100_000_000)
    sys.exit()
sys.stderr.flush()
os.write(1, b'<dlrun ' + nonce + b' 9>\n')
os.write(2, b'<dlrun ' + nonce + b' 9>\n')
os.write(1, {'escapes': b'\x1b]0;owned\x07\x1b[2Jtext\n', 'garbage': b'\0\xff{{{\n',
             'flood': b'y' * 3_000_000}[kind])
PY
    as_user chmod +x "$dir/bin/dlrun"
    write_host_file near "dlrun: $dir/bin/dlrun"
    as_user tee "$dir/bin/kind" >/dev/null <<<'escapes'
    run as_user env XDG_CONFIG_HOME="$laptop_dir/config" XDG_RUNTIME_DIR="$laptop_dir" \
        XDG_STATE_HOME="$laptop_dir/state" script -qec 'dlrun -H near ls' /dev/null
    echo "$output"
    [[ $output == *'\x1b]0;owned\x07'* && $output == *text* && $output != *$'\e]0'* ]]
    for kind in garbage flood 'unmarked flood'; do
        as_user tee "$dir/bin/kind" >/dev/null <<<"$kind"
        run laptop -H near submit exp.yaml </dev/null
        echo "$kind: ${output:0:500}"
        [ "$status" != 0 ]
        [ ${#output} -lt 5000 ]
    done
    write_host_file near
    no_jobs
}

@test "dlrun copies itself to the host once, and fails with advice if ~/.cache is full or noexec" {
    local cache=$DLRUN_TESTBED_HOME/.cache/dlrun
    as_user rm -rf "$cache"
    write_host_file near 'dlrun: auto'
    run laptop host check near
    echo "$output"
    [ "$status" = 0 ]
    [[ $output == *'(copied now)'* ]]
    laptop -H near ls
    [ "$(as_user find "$cache" -name dlrun-agent | wc -l)" = 1 ]
    as_user rm -rf "$cache" # The next command copies dlrun again.
    laptop -H near ls
    laptop host list --json | jq -e '.[] | select(.name == "near") | .connected'
    laptop host forget near
    laptop host list --json | jq -e '.[] | select(.name == "near") | .connected | not'
    write_host_file near 'dlrun: auto' 'master: existing'
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
    write_host_file near
}
