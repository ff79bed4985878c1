# shellcheck shell=bash
# A private sshd for tests of `dlrun -H`: its own keys, configuration and port on loopback, run by
# the testbed's user, whom alone it lets in. Nothing of the machine's own ssh is used or changed.
# The laptop is the same user with folders of its own for dlrun's configuration and state.
#
#   start_sshd            starts it; the aliases near (also near-SHELL) and far (40 ms away) lead to
#                         it, `lost` to a port where nobody listens, `odd` to another host key,
#                         `locked` to no accepted key
#   stop_sshd             ends it and all its connections
#   laptop ARGUMENTS...   runs dlrun as on the laptop, in $dir
#   host_file NAME LINES  writes the file of a host; its dlrun is the installed one unless a line
#                         says otherwise
#   use_shell SHELL       makes SHELL the login shell on the host

shells=(bash dash tcsh fish zsh)

start_sshd() {
    local home=$DLRUN_TESTBED_HOME
    ssh_dir=$home/sshd laptop_dir=$home/laptop
    as_user mkdir -p -m 700 "$ssh_dir" "$laptop_dir" "$home/.ssh" "$home/.config/fish"
    as_user ssh-keygen -q -t ed25519 -N '' -f "$ssh_dir/host" <<<n >/dev/null || true
    as_user ssh-keygen -q -t ed25519 -N '' -f "$ssh_dir/other" <<<n >/dev/null || true
    as_user ssh-keygen -q -t ed25519 -N '' -f "$ssh_dir/user" <<<n >/dev/null || true
    as_user ssh-keygen -q -t ed25519 -N '' -f "$ssh_dir/nobody" <<<n >/dev/null || true
    as_user cp "$ssh_dir/user.pub" "$ssh_dir/authorized"
    # Every shell's file prints, to both streams, which ssh takes for the command's output.
    local file
    for file in .bashrc .zshenv .cshrc .tcshrc .config/fish/config.fish; do
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
    as_user /usr/sbin/sshd -f "$ssh_dir/config" -E "$ssh_dir/log"
    wait_until 10 test -s "$ssh_dir/pid"
    aliases | as_user tee "$home/.ssh/config" >/dev/null
    as_user bash -c "echo \"[127.0.0.1]:$ssh_port \$(cut -d' ' -f1,2 $ssh_dir/host.pub)\" \
        >$ssh_dir/known; echo \"odd \$(cut -d' ' -f1,2 $ssh_dir/other.pub)\" >$ssh_dir/known-odd"
    local name
    for name in near far odd locked lost; do host_file "$name"; done
    for name in "${shells[@]}"; do host_file "near-$name"; done
}

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0))
print(s.getsockname()[1])'; }

# Prints the ssh configuration with the aliases.
aliases() {
    local common="    User $DLRUN_TESTBED_USER
    IdentityFile $ssh_dir/user
    IdentitiesOnly yes
    UserKnownHostsFile $ssh_dir/known"
    printf 'Host near near-*\n    HostName 127.0.0.1\n    Port %s\n%s\n' "$ssh_port" "$common"
    printf 'Host far\n    HostName 127.0.0.1\n    Port %s\n    ProxyCommand %s %s\n%s\n' \
        "$ssh_port" "$DLRUN_SOURCE_DIR/tests/e2e/slow_link.py 0.02" "$ssh_port" "$common"
    printf 'Host odd\n    HostName 127.0.0.1\n    Port %s\n    HostKeyAlias odd\n' "$ssh_port"
    printf '    StrictHostKeyChecking yes\n%s\n' "${common/known/known-odd}"
    printf 'Host locked\n    HostName 127.0.0.1\n    Port %s\n%s\n' "$ssh_port" \
        "${common/\/user/\/nobody}"
    printf 'Host lost\n    HostName 127.0.0.1\n    Port 1\n%s\n' "$common"
}

stop_sshd() {
    local name
    for name in "${shells[@]/#/near-}" near far; do
        laptop host forget "$name" 2>/dev/null || true
    done
    [[ ! -s $ssh_dir/pid ]] || as_user kill "$(<"$ssh_dir/pid")"
}

laptop() {
    as_user env -u SLURM_CONF XDG_STATE_HOME="$laptop_dir/state" \
        XDG_CONFIG_HOME="$laptop_dir/config" XDG_RUNTIME_DIR="$laptop_dir" \
        bash -c 'cd "$1" && shift && exec dlrun "$@"' - "$dir" "$@"
}

host_file() {
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
    local as_root=()
    ((EUID == 0)) || as_root=(sudo)
    "${as_root[@]}" usermod -s "$(command -v "$1")" "$DLRUN_TESTBED_USER"
}

# make_code: makes $dir a git repository with a spec of a job that writes its name to `executed`.
make_code() {
    as_user git -C "$dir" init -q
    as_user tee "$dir/exp.yaml" >/dev/null <<YAML
name: exp
resources: {nodes: 1, tasks_per_node: 1, time: 5m}
launch: {preset: plain, command: [sh, -c, 'cat message; pwd']}
YAML
    as_user tee "$dir/message" >/dev/null <<<"hello from the laptop"
    printf 'runs/\n' | as_user tee "$dir/.gitignore" >/dev/null
}
