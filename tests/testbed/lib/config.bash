# shellcheck shell=bash
# Writes Slurm's configuration files from the settings.

print_partition() {
    echo "PartitionName=$1 Nodes=$node_range State=UP DefaultTime=10:00 OverSubscribe=NO ${*:2}"
}

print_slurm_conf() {
    local i
    cat <<END
# Written by tests/testbed/up: one Slurm cluster on one machine.
ClusterName=testbed
SlurmctldHost=$(hostname -s)($subnet.1)
SlurmctldPort=$((port + 0))
SlurmdPort=$((port + 1))
SlurmUser=slurm
# Listen on the bridge only, so as not to disturb other testbeds or a Slurm of this machine.
CommunicationParameters=NoCtldInAddrAny

AuthType=auth/munge
# Credentials that expire soon let a requeued job start again after 6 s instead of two minutes.
AuthInfo=socket=$state/munge/munge.socket,cred_expire=5

StateSaveLocation=$state/slurmctld
FirstJobId=1
# start_slurmctld changes FirstJobId in this file. The nodes need not notice the change.
DebugFlags=NO_CONF_HASH
SlurmctldPidFile=$state/slurmctld/slurmctld.pid
SlurmctldLogFile=$state/log/slurmctld.log
SlurmdSpoolDir=$state/nodes/%n/spool
SlurmdPidFile=$state/nodes/%n/slurmd.pid
SlurmdLogFile=$state/log/slurmd-%n.log
PlugStackConfig=$state/etc/plugstack.conf
MailProg=/bin/true

ProctrackType=proctrack/$proctrack
$(slurm_is_at_least 23.11 || echo TaskPlugin=task/none)
JobAcctGatherType=jobacct_gather/linux
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu

# Seconds instead of a production cluster's minutes.
SchedulerParameters=sched_interval=1,sched_min_interval=0,bf_interval=1
SlurmdTimeout=10
KillWait=5
ReturnToService=2

# Small, so that a sweep of nine points needs two arrays.
MaxArraySize=8

PreemptType=preempt/partition_prio
PreemptMode=REQUEUE

# config_overrides: a node may claim more than this machine has.
SlurmdParameters=config_overrides
END
    if [[ $accounting == yes ]]; then
        cat <<END
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=$subnet.1
AccountingStoragePort=$((port + 2))
# With munge, the "password" is the path of the socket.
AccountingStoragePass=$state/munge/munge.socket
AccountingStorageTRES=gres/gpu
AccountingStoreFlags=job_comment
END
    fi
    if [[ $rest == yes ]]; then
        cat <<END
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=$state/slurmctld/jwt.key
END
    fi
    for ((i = 1; i <= nodes; i++)); do
        echo "NodeName=n$i NodeHostname=n$i NodeAddr=$subnet.$((10 + i))" \
            "Sockets=2 CoresPerSocket=32 ThreadsPerCore=1 RealMemory=256000" \
            "$( ((gpus == 0)) || echo "Gres=gpu:pretend:$gpus ")State=UNKNOWN"
    done
    print_partition batch Default=YES PriorityTier=10 PreemptMode=OFF MaxTime=1-00:00:00
    echo "# Jobs in batch preempt those in preempt (with a grace time) and preempt-now (without)."
    print_partition preempt PriorityTier=1 PreemptMode=REQUEUE GraceTime=5 MaxTime=1-00:00:00
    print_partition preempt-now PriorityTier=1 PreemptMode=REQUEUE GraceTime=0 MaxTime=1-00:00:00
    ((${#extra_conf[@]} == 0)) || printf '%s\n' "${extra_conf[@]}"
}

print_slurmdbd_conf() {
    cat <<END
DbdHost=localhost
DbdAddr=$subnet.1
DbdPort=$((port + 2))
SlurmUser=slurm
AuthType=auth/munge
AuthInfo=socket=$state/munge/munge.socket
StorageType=accounting_storage/mysql
StorageUser=slurm
StorageLoc=slurm_acct_db
PidFile=$state/slurmdbd/slurmdbd.pid
END
}

# Prints an /etc/hosts with the login node and the nodes. slurmctld and user programs such as torch
# look up their own host.
print_hosts() {
    local i
    printf '127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n%s.1 %s\n' "$subnet" \
        "$(hostname -s)"
    for ((i = 1; i <= nodes; i++)); do printf '%s.%d n%d\n' "$subnet" $((10 + i)) "$i"; done
}

# Creates the device files for File= in gres.conf. Slurm numbers the GPUs by these files and only
# requires that they are devices. Also creates FUSE's device, which the nodes' users may use, as on
# most clusters.
make_devices() {
    local i
    mkdir -p "$state/dev"
    [[ -c $state/dev/fuse ]] || mknod -m 666 "$state/dev/fuse" c 10 229
    for ((i = 0; i < gpus; i++)); do
        [[ -c $state/dev/gpu$i ]] || mknod -m 666 "$state/dev/gpu$i" c 1 3
    done
}

write_configuration() {
    local etc=$state/etc
    mkdir -p "$etc" "$etc/plugstack.d"
    print_slurm_conf >"$etc/slurm.conf"
    print_hosts >"$etc/hosts"
    echo '# The nodes reach nothing outside of the testbed.' >"$etc/resolv.conf"
    echo "include $etc/plugstack.d/*" >"$etc/plugstack.conf"
    echo 'CgroupPlugin=cgroup/v1' >"$etc/cgroup.conf"
    slurm_is_at_least 23.11 || echo 'CgroupAutomount=no' >>"$etc/cgroup.conf"
    make_devices
    if ((gpus)); then
        local gpu_numbers=0
        ((gpus == 1)) || gpu_numbers="[0-$((gpus - 1))]"
        echo "NodeName=$node_range Name=gpu Type=pretend File=$state/dev/gpu$gpu_numbers"
    fi >"$etc/gres.conf"
    if [[ $accounting == yes ]]; then
        print_slurmdbd_conf >"$etc/slurmdbd.conf"
        chown slurm "$etc/slurmdbd.conf"
        chmod 600 "$etc/slurmdbd.conf"
    fi
}
