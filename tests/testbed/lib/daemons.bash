# shellcheck shell=bash
# Functions that start the daemons. `up` calls them in the order of their dependencies. Each start_*
# starts only the daemons that are not alive.

start_munged() {
    daemon_is_alive munged && return
    local dir=$state/munge
    mkdir -p "$dir" "$dir/private"
    [[ -s $dir/private/key ]] || (umask 077 && head -c 128 /dev/urandom >"$dir/private/key")
    chown -R munge:munge "$dir"
    chmod 700 "$dir/private"
    chmod 600 "$dir/private/key"
    spawn munged setpriv --reuid=munge --regid=munge --clear-groups munged --foreground --force \
        --key-file="$dir/private/key" \
        --socket="$dir/munge.socket" --pid-file="$dir/private/munged.pid" \
        --log-file="$dir/private/munged.log" \
        --seed-file="$dir/private/munged.seed"
    wait_for 10 test -S "$dir/munge.socket" || die "munged did not start: see $state/log/munged.out"
}

start_slurmctld() {
    daemon_is_alive slurmctld && return
    mkdir -p "$state/slurmctld"
    chown slurm "$state/slurmctld"
    if [[ $rest == yes && ! -s $state/slurmctld/jwt.key ]]; then
        (umask 077 && head -c 32 /dev/urandom >"$state/slurmctld/jwt.key")
        chown slurm "$state/slurmctld/jwt.key"
    fi
    # A killed controller may not have saved its last jobs. Their ids must not be used again: a node
    # that is still ending a job with the same id would refuse the new job as a duplicate and be
    # drained. The file `starts` gets one line at each start, and each start has its own 10000 ids.
    local starts=$state/slurmctld/starts
    echo >>"$starts"
    sed -i "s/^FirstJobId=.*/FirstJobId=$((($(wc -l <"$starts") - 1) * 10000 + 1))/" \
        "$state/etc/slurm.conf"
    # slurmctld listens on the address of its own host's name. $state/etc/hosts gives this name the
    # bridge's address.
    # shellcheck disable=SC2016  # the inner shell expands
    spawn slurmctld unshare --mount --propagation private \
        sh -c 'mount --bind "$1/etc/hosts" /etc/hosts && exec slurmctld -D -f "$1/etc/slurm.conf"' \
        sh "$state"
}

start_node() {
    daemon_is_alive "slurmd-$1" && return
    local cgroup=-
    mkdir -p "$state/nodes/$1/spool"
    make_node_network "$1" "${1#n}"
    if [[ $proctrack == cgroup ]]; then
        cgroup=$freezer/$bridge/$1
        mkdir -p "$cgroup"
    fi
    # slurmstepd inherits slurmd's environment. PMIX_MCA_gds=hash avoids PMIx's default store, which
    # crashes or hangs in about one of fifty steps. pyxis finds enroot on slurmd's PATH.
    spawn "slurmd-$1" env PMIX_MCA_gds=hash PATH="$PATH:$state/containers/bin" \
        "$testbed_source/lib/node-init" "$1" "$cgroup" "$bridge-$1" \
        slurmd -D -N "$1" -f "$state/etc/slurm.conf"
}

database_answers() { mariadb --no-defaults --socket="$state/mysql/run/socket" -e 'select 1'; }
accounting_answers() { timeout 5 sacctmgr -n show cluster; }

# Starts slurmdbd with a private MariaDB that listens only on a socket, and creates the cluster,
# account and user for jobs. Does nothing without --accounting.
start_accounting() {
    [[ $accounting == yes ]] || return 0
    local dir=$state/mysql
    if ! daemon_is_alive mariadbd; then
        mkdir -p "$dir/run"
        chown -R slurm "$dir"
        if [[ ! -d $dir/data ]]; then
            mariadb-install-db --no-defaults --user=slurm --datadir="$dir/data" \
                --auth-root-authentication-method=socket \
                --auth-root-socket-user=root --skip-test-db >"$state/log/mariadb-install-db.out" \
                2>&1 ||
                die "the database could not be made: see $state/log/mariadb-install-db.out"
        fi
        spawn mariadbd mariadbd --no-defaults --user=slurm --datadir="$dir/data" \
            --socket="$dir/run/socket" --skip-networking \
            --pid-file="$dir/run/pid" --innodb-buffer-pool-size=64M --innodb-log-file-size=16M \
            --innodb-lock-wait-timeout=900 \
            --innodb-flush-log-at-trx-commit=0 --skip-innodb-doublewrite
        wait_for 30 database_answers ||
            die "the database did not start: see $state/log/mariadbd.out"
        mariadb --no-defaults --socket="$dir/run/socket" \
            -e "create database if not exists slurm_acct_db;
            create user if not exists slurm@localhost identified via unix_socket;
            grant all on slurm_acct_db.* to slurm@localhost"
    fi
    if ! daemon_is_alive slurmdbd; then
        mkdir -p "$state/slurmdbd"
        chown slurm:slurm "$state/slurmdbd"
        spawn slurmdbd env MYSQL_UNIX_PORT="$dir/run/socket" setpriv --reuid=slurm --regid=slurm \
            --clear-groups slurmdbd -D
        wait_for 30 accounting_answers || die "slurmdbd did not start: see $state/log/slurmdbd.out"
    fi
    if [[ -z $(sacctmgr -n show cluster testbed) ]]; then
        {
            sacctmgr -i add cluster testbed
            sacctmgr -i add account testers Description=testers Organization=dlrun
            sacctmgr -i add user "$user" Account=testers
            sacctmgr -i add user root Account=testers
        } >"$state/log/sacctmgr.out" 2>&1 ||
            die "the cluster could not be added to accounting: see $state/log/sacctmgr.out"
    fi
}

rest_answers() { [[ -S $state/rest/socket ]] && (exec 3<>"/dev/tcp/127.0.0.1/$((port + 3))"); }

# Starts two slurmrestd. The first listens on a TCP port of the loopback address and accepts JWT. It
# runs as nobody, because slurmrestd refuses to run as root or SlurmUser. The second listens on a
# local socket and checks the user id of the client. It runs as the ordinary user, because it serves
# only its own user. Does nothing without --rest.
start_rest() {
    [[ $rest == yes ]] || return 0
    local as=(setpriv --reuid="$user" --regid="$user" --init-groups)
    local env=(env "SLURMRESTD_SECURITY=disable_unshare_sysv,disable_unshare_files")
    local api=openapi/v0.0.38
    # From 23.11 on, this plugin serves all versions of the API from v0.0.40 on. slurmrestd does not
    # start with openapi/slurmdbd if the cluster has no slurmdbd.
    ! slurm_is_at_least 23.11 || api=openapi/slurmctld
    mkdir -p "$state/rest"
    chown "$user" "$state/rest"
    if ! daemon_is_alive slurmrestd-tcp; then
        spawn slurmrestd-tcp "${env[@]}" SLURM_JWT=daemon setpriv --reuid=nobody --regid=nogroup \
            --clear-groups \
            slurmrestd -f "$state/etc/slurm.conf" -s "$api" \
            -a rest_auth/jwt "127.0.0.1:$((port + 3))"
    fi
    if ! daemon_is_alive slurmrestd-local; then
        rm -f "$state/rest/socket"
        spawn slurmrestd-local "${env[@]}" "${as[@]}" \
            slurmrestd -f "$state/etc/slurm.conf" -s "$api" \
            -a rest_auth/local "unix:$state/rest/socket"
    fi
    wait_for 10 rest_answers || die "slurmrestd did not start: see $state/log/slurmrestd-*.out"
}

controller_answers() { timeout 5 scontrol ping | grep -q 'is UP'; }
# Succeeds if every node is idle, reserved, mixed, allocated or completing, and responds.
nodes_are_usable() {
    local states
    states=$(timeout 5 sinfo -h -N -p batch -o %T) || return 1
    local usable='^(idle|reserved|mixed|allocated|completing)$'
    (($(wc -l <<<"$states") == nodes)) && ! grep -Eqv "$usable" <<<"$states"
}
