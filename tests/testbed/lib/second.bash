# shellcheck shell=bash
# A second cluster of one node, m1, beside the first. It has a controller and a slurmd of its own,
# and shares munge and slurmdbd with the first cluster. Slurm's option -M gets a cluster's address
# from slurmdbd. `$second` is the name of the second cluster; it is empty without --second.

second_cluster_is_idle() {
    timeout 5 squeue -h -M "$second" && timeout 5 sinfo -h -M "$second" -N -p batch -o %T |
        grep -qx idle
}

# Copies the first cluster's configuration, and replaces the values that must differ.
write_second_cluster_configuration() {
    local etc=$state/etc-second
    mkdir -p "$etc"
    cp "$state"/etc/{cgroup.conf,resolv.conf} "$etc"
    { cat "$state/etc/hosts" && echo "$subnet.$((11 + nodes)) m1"; } >"$etc/hosts"
    : >"$etc/gres.conf"
    sed -e "s/^ClusterName=.*/ClusterName=$second/" \
        -e "s/^SlurmctldPort=.*/SlurmctldPort=$((port + 5))/" \
        -e "s/^SlurmdPort=.*/SlurmdPort=$((port + 6))/" \
        -e "s#=$state/slurmctld#=$state/slurmctld-second#" \
        -e "s#/log/slurmctld.log#/log/slurmctld-second.log#" -e '/^NodeName=/d' \
        -e '/^GresTypes=/d' -e 's/ Nodes=[^ ]*/ Nodes=m1/' \
        "$state/etc/slurm.conf" >"$etc/slurm.conf"
    echo "NodeName=m1 NodeHostname=m1 NodeAddr=$subnet.$((11 + nodes))" \
        "Sockets=2 CoresPerSocket=32 ThreadsPerCore=1 RealMemory=256000 State=UNKNOWN" \
        >>"$etc/slurm.conf"
}

# Starts the second cluster if --second is given, and waits until its node is idle.
start_second_cluster() {
    [[ -n $second ]] || return 0
    local etc=$state/etc-second cgroup=-
    [[ -e $etc/slurm.conf ]] || write_second_cluster_configuration
    if [[ -z $(sacctmgr -n show cluster "$second") ]]; then
        {
            sacctmgr -i add cluster "$second"
            sacctmgr -i add account testers Cluster="$second" Description=testers Organization=dlrun
            sacctmgr -i add user "$user" Cluster="$second" Account=testers
            sacctmgr -i add user root Cluster="$second" Account=testers
        } >"$state/log/sacctmgr-second.out" 2>&1 ||
            die "the second cluster could not be added: see $state/log/sacctmgr-second.out"
    fi
    if ! daemon_is_alive slurmctld-second; then
        mkdir -p "$state/slurmctld-second"
        chown slurm "$state/slurmctld-second"
        # shellcheck disable=SC2016  # the inner shell expands
        spawn slurmctld-second env SLURM_CONF="$etc/slurm.conf" unshare --mount \
            --propagation private \
            sh -c 'mount --bind "$1/hosts" /etc/hosts && exec slurmctld -D -f "$1/slurm.conf"' sh \
            "$etc"
    fi
    if ! daemon_is_alive slurmd-m1; then
        mkdir -p "$state/nodes/m1/spool"
        make_node_network m1 $((nodes + 1))
        if [[ $proctrack == cgroup ]]; then
            cgroup=$freezer/$bridge/m1
            mkdir -p "$cgroup"
        fi
        spawn slurmd-m1 env PMIX_MCA_gds=hash SLURM_CONF="$etc/slurm.conf" \
            "$testbed_source/lib/node-init" m1 "$cgroup" "$bridge-m1" \
            slurmd -D -N m1 -f "$etc/slurm.conf"
    fi
    wait_for 30 second_cluster_is_idle ||
        die "the second cluster does not answer, or its node m1 is not idle within 30 s:" \
            "see $state/log/slurmctld-second.log and slurmd-m1.log"
}
