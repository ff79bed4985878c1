# shellcheck shell=bash
# Control groups: each node has one in the freezer hierarchy (version 1). proctrack/cgroup needs only
# this hierarchy, which also exists on hosts that use version 2. slurmd sees its group as the root of
# a cgroup namespace. The nodes of several testbeds are therefore separate, and every process that a
# node has started can be found and ended.

freezer=$state/freezer

# Mounts the freezer hierarchy. Fails if this machine has none, or does not allow the mount.
mount_freezer() {
    awk '$1 == "freezer" && $4 == 1 { found = 1 } END { exit !found }' /proc/cgroups &&
        mkdir -p "$freezer" && mount -t cgroup -o freezer dlrun-testbed "$freezer" 2>/dev/null
}

cgroup_processes() { find "$1" -name cgroup.procs -exec cat {} +; }

# remove_cgroups BRIDGE: ends every process in the control groups of a testbed's nodes and removes
# the groups, then unmounts the freezer hierarchy. BRIDGE is the name of the testbed's network
# bridge, and of its top control group. Does nothing if the hierarchy is not mounted.
remove_cgroups() {
    local top=$freezer/$1
    mountpoint -q "$freezer" || return 0
    if [[ -d $top ]]; then
        find "$top" -name freezer.state -exec sh -c 'for f; do echo THAWED >"$f"; done' sh {} + \
            2>/dev/null || true
        kill_all cgroup_processes "$top" || true
        wait_for 5 find "$top" -depth -type d -exec rmdir {} + ||
            warn "control groups are left in $top"
    fi
    umount "$freezer"
}
