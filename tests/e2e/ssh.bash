# shellcheck shell=bash
# Functions for tests of `dlrun -H`. They run a private sshd as root, with its own keys,
# configuration and port on loopback. The tests log in as the testbed's user. The machine's own sshd
# is neither used nor changed. The laptop is the same user with other folders for dlrun's
# configuration and state. A file that says `load ssh` gets setup and teardown functions, too.
#
#   start_sshd            starts the sshd. The aliases `near` (also near-SHELL) and `far` (40 ms
#                         away) lead to it, `lost` leads to a port where nobody listens, `odd`
#                         expects another host key, `locked` has no accepted key
#   stop_sshd             ends the sshd and its connections; removes the sshd's files, the laptop's
#                         folder and the start files of the shells
#   laptop ARGUMENTS...   runs dlrun on the laptop, in $dir
#   laptop_env ARGV...    runs a command with the laptop's environment
#   cut_after MS ARGUMENTS...
#                         runs dlrun on the laptop, and kills it with all its children after MS
#                         milliseconds
#   is_refused CODE TEXT ARGUMENTS...
#                         checks that dlrun on the laptop fails with this code and text
#   write_host_file NAME LINES
#                         writes the host file NAME.yaml with these lines. Unless the lines set
#                         dlrun or root, dlrun is the installed one and root is ~/mirrors
#   use_shell SHELL       makes SHELL the login shell on the host
#   make_code             makes $dir a git repository with exp.yaml, whose job prints the file
#                         `message`, and sweep.yaml, a sweep of this job with two points
#   cut_submissions N SEED
#                         submits job 0 without a cut, then the jobs 1 to N, each with a cut at a
#                         random moment. A submission may end before its cut. Repeats each one that
#                         was cut until an answer comes. The jobs write their numbers to
#                         $dir/executed. `cuts` is the number of submissions that were cut
#   each_job_ran_once N   checks that each of the jobs 0 to N ran once and has one run

shells=(bash dash tcsh fish zsh)
shell_start_files=(.bashrc .zshenv .cshrc .tcshrc .config/fish/config.fish)

setup_file() {
    start_sshd
    export ssh_dir laptop_dir ssh_port
}

teardown_file() {
    use_shell bash
    dir=/ stop_sshd
}

setup() { dir=$(fresh_dir); }

start_sshd() {
    local home=$DLRUN_TESTBED_HOME
    ssh_dir=$home/sshd laptop_dir=$home/laptop
    as_user mkdir -p -m 700 "$ssh_dir" "$laptop_dir" "$home/.ssh" "$home/.config/fish"
    as_user ssh-keygen -q -t ed25519 -N '' -f "$ssh_dir/host" <<<n >/dev/null || true
    as_user ssh-keygen -q -t ed25519 -N '' -f "$ssh_dir/other" <<<n >/dev/null || true
    as_user ssh-keygen -q -t ed25519 -N '' -f "$ssh_dir/user" <<<n >/dev/null || true
    as_user ssh-keygen -q -t ed25519 -N '' -f "$ssh_dir/rejected" <<<n >/dev/null || true
    as_user cp "$ssh_dir/user.pub" "$ssh_dir/authorized"
    # The start file of every shell prints a line, which ssh passes on as output of the command.
    local file
    for file in "${shell_start_files[@]}"; do
        as_user tee "$home/$file" >/dev/null <<<'echo "Welcome to the cluster!"'
    done
    ssh_port=$(free_port)
    {
        printf '%s\n' "Port $ssh_port" "ListenAddress 127.0.0.1" "HostKey $ssh_dir/host" \
            "AuthorizedKeysFile $ssh_dir/authorized" "PidFile $ssh_dir/pid" "StrictModes no" \
            "UsePAM no" "PasswordAuthentication no" "KbdInteractiveAuthentication no" \
            "PrintMotd no" "PrintLastLog no" "MaxSessions 10" "LogLevel VERBOSE"
        as_user bash -c 'printf "SetEnv SLURM_CONF=%s PATH=%s PMIX_MCA_gds=hash\n" \
            "$SLURM_CONF" "$PATH"'
    } | as_user tee "$ssh_dir/config" >/dev/null
    # sshd refuses an account whose password is locked ('!'). With '*' no password is valid, but the
    # account can log in with a key.
    as_root usermod -p '*' "$DLRUN_TESTBED_USER"
    as_root mkdir -p /run/sshd
    # sshd runs as root, as on a real host. sshd gives each terminal to the group tty; if devpts is
    # mounted without gid=tty, only root can do this.
    as_root /usr/sbin/sshd -f "$ssh_dir/config" -E "$ssh_dir/log"
    wait_until 10 test -s "$ssh_dir/pid"
    print_ssh_config | as_user tee "$home/.ssh/config" >/dev/null
    as_user bash -c "echo \"[127.0.0.1]:$ssh_port \$(cut -d' ' -f1,2 $ssh_dir/host.pub)\" \
        >$ssh_dir/known; echo \"odd \$(cut -d' ' -f1,2 $ssh_dir/other.pub)\" >$ssh_dir/known-odd"
    local name
    for name in near far odd locked lost; do write_host_file "$name"; done
    for name in "${shells[@]}"; do write_host_file "near-$name"; done
}

as_root() { if ((EUID == 0)); then "$@"; else sudo "$@"; fi; }

# Prints the ssh configuration with the aliases.
print_ssh_config() {
    local common="    User $DLRUN_TESTBED_USER
    IdentityFile $ssh_dir/user
    IdentitiesOnly yes
    UserKnownHostsFile $ssh_dir/known"
    printf 'Host near near-*\n    HostName 127.0.0.1\n    Port %s\n%s\n' "$ssh_port" "$common"
    printf 'Host far\n    HostName 127.0.0.1\n    Port %s\n    ProxyCommand %s %s\n%s\n' \
        "$ssh_port" "$(user_source)/tests/e2e/slow_link.py 0.02" "$ssh_port" "$common"
    printf 'Host odd\n    HostName 127.0.0.1\n    Port %s\n    HostKeyAlias odd\n' "$ssh_port"
    printf '    StrictHostKeyChecking yes\n%s\n' "${common/known/known-odd}"
    printf 'Host locked\n    HostName 127.0.0.1\n    Port %s\n%s\n' "$ssh_port" \
        "${common/\/user/\/rejected}"
    printf 'Host lost\n    HostName 127.0.0.1\n    Port 1\n%s\n' "$common"
}

stop_sshd() {
    local name
    for name in "${shells[@]/#/near-}" near far; do
        laptop host forget "$name" 2>/dev/null || true
    done
    [[ ! -s $ssh_dir/pid ]] || as_root kill "$(<"$ssh_dir/pid")"
    as_user rm -rf "${shell_start_files[@]/#/$DLRUN_TESTBED_HOME/}" \
        "$DLRUN_TESTBED_HOME/.ssh/config" "$laptop_dir" "$ssh_dir"
}

laptop_env() {
    as_user env -u SLURM_CONF XDG_STATE_HOME="$laptop_dir/state" \
        XDG_CONFIG_HOME="$laptop_dir/config" XDG_RUNTIME_DIR="$laptop_dir" "$@"
}

# shellcheck disable=SC2016 # the inner bash expands the variables
laptop() { laptop_env bash -c 'cd "$1" && shift && exec dlrun "$@"' - "$dir" "$@"; }

cut_after() {
    local after=$1
    shift
    laptop_env python3 "$(user_source)/tests/e2e/cut_after.py" "$after" "$dir" dlrun "$@"
}

is_refused() {
    local code=$1 text=$2
    shift 2
    run laptop "$@" </dev/null
    echo "$output"
    # shellcheck disable=SC2154 # run sets status
    [ "$status" = "$code" ]
    [[ $output == *"$text"* ]]
}

write_host_file() {
    local name=$1
    shift
    as_user mkdir -p "$laptop_dir/config/dlrun/hosts"
    {
        [[ " $* " == *" dlrun: "* ]] || echo "dlrun: $DLRUN_TESTBED_PREFIX/bin/dlrun"
        [[ " $* " == *" root: "* ]] || echo "root: ~/mirrors"
        [[ $# == 0 ]] || printf '%s\n' "$@"
    } | as_user tee "$laptop_dir/config/dlrun/hosts/$name.yaml" >/dev/null
}

use_shell() {
    as_root usermod -s "$(command -v "$1")" "$DLRUN_TESTBED_USER"
}

make_code() {
    as_user git -C "$dir" init -q
    as_user tee "$dir/exp.yaml" >/dev/null <<YAML
name: exp
resources: {nodes: 1, tasks_per_node: 1, time: 5m}
launch: {preset: plain, command: [sh, -c, 'cat message; pwd']}
YAML
    as_user tee "$dir/message" >/dev/null <<<"hello from the laptop"
    { cat "$dir/exp.yaml" && echo 'sweep: {parameters: {environment.vars.LR: [1, 2]}}'; } |
        as_user tee "$dir/sweep.yaml" >/dev/null
    printf '%s\n' runs/ 'out-*' executed | as_user tee "$dir/.gitignore" >/dev/null
}

# submit_cut NUMBER MILLISECONDS SPEC: submits a job, kills the command after that time, and repeats
# the command until an answer comes. Fails if five repetitions fail.
submit_cut() {
    local failed=0 arguments=(-H near submit "$3" --set "name=cut-$1"
        --set "launch.command=[sh, -c, 'echo \$0 >>$dir/executed', '$1']")
    cut_after "$2" "${arguments[@]}" &>"$dir/out-$1" && return
    # If the answer came before the cut, a user would not repeat the command.
    ! grep -q '^submitted ' "$dir/out-$1" || return 0
    until laptop "${arguments[@]}" &>>"$dir/out-$1"; do ((++failed < 5)) || return 1; done
    ((++cuts))
}

cut_submissions() {
    local count=$1 i start uncut_ms cuts_before
    cuts=0 RANDOM=$2
    start=${EPOCHREALTIME/./}
    submit_cut 0 100000 exp.yaml
    uncut_ms=$(((${EPOCHREALTIME/./} - start) / 1000))
    for ((i = 1; i <= count; i++)); do
        start=${EPOCHREALTIME/./} cuts_before=$cuts
        submit_cut "$i" $((RANDOM % uncut_ms * 4 / 5 + 1)) exp.yaml ||
            { cat "$dir/out-$i" && return 1; }
        # If a submission ended before its cut, its duration is the new uncut_ms, because the first
        # submission takes longer than later ones.
        ((cuts > cuts_before)) || uncut_ms=$(((${EPOCHREALTIME/./} - start) / 1000))
    done
    echo "$count submissions of $uncut_ms ms, $cuts of them cut"
}

each_job_ran_once() {
    local runs
    runs=$(laptop -H near check exp.yaml | sed -n 's|^ *runs *||p')
    wait_until $((60 + $1)) no_jobs
    [[ $(sort -n "$dir/executed") == "$(seq 0 "$1")" ]] || return 1
    # Each try of a test has a new folder, and thus another copy of the code with runs of its own.
    [[ $(laptop -H near ls --all --json |
        jq -r --arg runs "$runs/" '.[] | select(.path | startswith($runs)) | .name' |
        grep '^cut-' | sort -t- -k2n) == \
        "$(seq -f cut-%g 0 "$1")" ]]
}
