# shellcheck shell=bash
# The network: one bridge, whose address is the login node's, and one network namespace per node. A
# bridge belongs to this testbed if its alias is the state directory.

bridge_alias() { cat "/sys/class/net/$1/ifalias" 2>/dev/null; }
bridge_is_ours() { [[ $(bridge_alias "$1") == "dlrun-testbed:$state" ]]; }

our_bridges() {
    local dir
    for dir in /sys/class/net/dlrun*; do
        bridge_is_ours "${dir##*/}" && echo "${dir##*/}"
    done
    return 0
}

# subnet_is_free SUBNET: succeeds if this machine has no route to the subnet or to a part of it.
# Wider routes, such as the default route, do not count.
subnet_is_free() {
    local route
    route=$(ip -4 route get "$1.1" 2>/dev/null) || return 0
    [[ $route != *"dev dlrun"* && $route != local\ * ]] &&
        [[ -z $(ip -4 route show root "$1.0/24") ]]
}

# Takes the first free network 10.77.K.0/24 with its bridge dlrunK, or the requested one. Sets
# `subnet` (the first three numbers of its addresses) and `bridge`. Creating the bridge claims the
# network, so two testbeds that start at the same time cannot get the same network.
claim_network() {
    local k last=15 first=0
    if [[ -n ${DLRUN_TESTBED_SUBNET:-} ]]; then
        [[ $DLRUN_TESTBED_SUBNET =~ ^10\.77\.(0|[1-9][0-9]{0,2})$ ]] ||
            die "DLRUN_TESTBED_SUBNET is '$DLRUN_TESTBED_SUBNET', expected 10.77.K"
        first=${BASH_REMATCH[1]} last=$first
        ((first < 255)) ||
            die "DLRUN_TESTBED_SUBNET is '$DLRUN_TESTBED_SUBNET', expected 10.77.K, K at most 254"
    fi
    for ((k = first; k <= last; k++)); do
        subnet=10.77.$k bridge=dlrun$k
        subnet_is_free "$subnet" || continue
        ip link add "$bridge" type bridge 2>/dev/null || continue
        ip link set "$bridge" alias "dlrun-testbed:$state"
        return
    done
    if ((first == last)); then
        die "the network $subnet.0/24 or the bridge dlrun$first is in use, and not by this" \
            "testbed (see ip address); give another with DLRUN_TESTBED_SUBNET=10.77.K"
    fi
    die "none of the networks 10.77.0.0/24 to 10.77.$last.0/24 is free (see ip address, and" \
        "/sys/class/net/dlrun*/ifalias for their owners)"
}

raise_bridge() {
    ip address replace "$subnet.1/24" dev "$bridge"
    ip link set "$bridge" up
}

# make_node_network NODE INDEX: creates the node's network namespace, its veth pair to the bridge
# and its address, and makes the bridge its default route.
make_node_network() {
    local ns=$bridge-$1 veth_end=$bridge.$2
    [[ -e /run/netns/$ns ]] && return
    ip netns add "$ns"
    ip link add "$veth_end" type veth peer name eth0 netns "$ns"
    ip link set "$veth_end" master "$bridge" up
    ip -n "$ns" link set lo up
    ip -n "$ns" address add "$subnet.$((10 + $2))/24" dev eth0
    ip -n "$ns" link set eth0 up
    ip -n "$ns" route add default via "$subnet.1"
}

namespace_processes() { ip netns pids "$1"; }

# remove_network BRIDGE: kills all processes in the nodes' namespaces, then removes the namespaces
# and the bridge.
remove_network() {
    local path ns veth_end
    for path in /run/netns/"$1"-*; do
        ns=${path##*/}
        kill_all namespace_processes "$ns" || true
        ip netns delete "$ns"
    done
    for veth_end in /sys/class/net/"$1".*; do
        ip link delete "${veth_end##*/}" 2>/dev/null || true
    done
    ip link delete "$1" # The bridge is deleted last, because `down` finds everything else by it.
    # /run/netns is a mount that `ip netns add` made. It is removed with the last namespace.
    [[ -n $(ls -A /run/netns 2>/dev/null) ]] ||
        { umount /run/netns && rmdir /run/netns; } 2>/dev/null || true
}
