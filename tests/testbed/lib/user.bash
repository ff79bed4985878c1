# shellcheck shell=bash
# The ordinary user who submits jobs. `up` creates the user if it does not exist, with a mark by
# which `down` recognises it.

user_mark="dlrun-testbed in $state"

user_is_ours() { [[ $(getent passwd "$1" | cut -d: -f5) == "$user_mark" ]]; }
our_users() { getent passwd | awk -F: -v mark="$user_mark" '$5 == mark { print $1 }'; }
user_home() { getent passwd "$1" | cut -d: -f6; }

ensure_user() {
    getent passwd "$1" >/dev/null && return
    mkdir -p "$state/home"
    useradd --create-home --home-dir "$state/home/$1" --shell /bin/bash --user-group \
        --comment "$user_mark" --key MAIL_DIR=/dev/null "$1"
}

user_processes() { find /proc -maxdepth 1 -regex '/proc/[0-9]+' -uid "$1" -printf '%f\n'; }

# remove_user USER: kills all processes of the user, and removes the user but not the home.
remove_user() {
    kill_all user_processes "$(id -u "$1")" || true
    userdel "$1"
}

# Writes two files for shells to read. $state/env has the exports of tests/testbed/env. $state/login
# has the user's home and the arguments that `env -i` gets before a command of the user. Tests run
# thousands of these commands, and reading a file starts no process.
write_shell_files() {
    local environment home login line
    home=$(user_home "$user")
    mapfile -t environment < <(print_environment)
    login=(HOME="$home" USER="$user" LOGNAME="$user" SHELL=/bin/bash LANG=C.UTF-8
        PATH="$state/prefix/bin:$(slurm_path_prefix)/usr/local/bin:/usr/bin:/bin:$state/containers/bin"
        "${environment[@]}"
        setpriv --reuid="$user" --regid="$user" --init-groups --inh-caps=-all)
    printf 'testbed_home=%q\ntestbed_login=(%s)\n' "$home" "$(printf '%q ' "${login[@]}")" \
        >"$state/login"
    {
        for line in "${environment[@]}"; do
            printf 'export %s=%q\n' "${line%%=*}" "${line#*=}"
        done
        # shellcheck disable=SC2016  # the shell that reads the line expands PATH
        printf 'export PATH=%q"$PATH":%q\n' "$state/prefix/bin:$(slurm_path_prefix)" \
            "$state/containers/bin"
    } >"$state/env"
}

# as_user COMMAND...: becomes the command, as in a login of the testbed's user. The command gets the
# environment of that user and of the testbed, and only TERM from the caller.
as_user() {
    local testbed_home testbed_login
    source "$state/login"
    exec env -i --chdir="$testbed_home" ${TERM:+TERM="$TERM"} "${testbed_login[@]}" "$@"
}

# Prints the environment that a shell needs for the testbed, without PATH, as NAME=value lines.
print_environment() {
    local i names=()
    for ((i = 1; i <= nodes; i++)); do names+=("n$i"); done
    echo "SLURM_CONF=$state/etc/slurm.conf"
    echo "DLRUN_TESTBED_DIR=$state"
    [[ -z $slurm ]] || echo "DLRUN_TESTBED_SLURM=$slurm"
    echo "DLRUN_TESTBED_USER=$user"
    echo "DLRUN_TESTBED_HOME=$(user_home "$user")"
    echo "DLRUN_TESTBED_PREFIX=$state/prefix"
    echo "DLRUN_TESTBED_NODES=${names[*]}"
    echo "DLRUN_TESTBED_PROCTRACK=$proctrack"
    echo "DLRUN_TESTBED_ACCOUNTING=$accounting"
    [[ ! -e $state/containers/kind ]] ||
        echo "DLRUN_TESTBED_CONTAINERS=$(<"$state/containers/kind")"
    [[ -z $second ]] || echo "DLRUN_TESTBED_SECOND=$second"
    if [[ $rest == yes ]]; then
        echo "DLRUN_TESTBED_REST_URL=http://127.0.0.1:$((port + 3))"
        echo "DLRUN_TESTBED_REST_SOCKET=$state/rest/socket"
    fi
    # PMIx 4.2.2's default store crashes or hangs in about one of fifty steps.
    echo "PMIX_MCA_gds=hash"
    # There are more ranks than cores: a waiting MPI process must yield to the others.
    echo "OMPI_MCA_mpi_yield_when_idle=1"
}
