# shellcheck shell=bash
# Makes bare Debian roots (root directories, with debootstrap), and runs programs in them, in
# separate namespaces. tests/fresh_debian and tests/packages source this file. Needs root,
# debootstrap and the package mirror of this machine.

# mirror_of_this_machine: prints the address of the package mirror in debian.sources, or the address
# of deb.debian.org if that file has none.
mirror_of_this_machine() {
    local mirror
    mirror=$(sed -n '/^URIs:/{s/^URIs: *\([^ ]*\).*/\1/p;q}' \
        /etc/apt/sources.list.d/debian.sources 2>/dev/null) || true
    echo "${mirror:-http://deb.debian.org/debian}"
}

# make_bare_root ROOT SUITE PACKAGES: unless the root exists, makes it, with apt's configuration of
# this machine. PACKAGES: names, separated by commas. Each call, even if the root exists, copies the
# certificates and the name servers of this machine into it.
make_bare_root() {
    local root=$1 suite=$2 packages=$3 mirror machine_suite
    mirror=$(mirror_of_this_machine)
    machine_suite=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
    if [[ ! -e $root/etc/debian_version ]]; then
        echo "==> debootstrap $suite $mirror"
        if ! debootstrap --variant=minbase --include="$packages" "$suite" "$root" "$mirror" \
            >"$root.log" 2>&1; then
            tail -n 20 "$root.log" >&2
            rm -f "$root.log"
            return 1
        fi
        rm -f "$root.log"
        # debian.sources of this machine has the packages of the machine's own release only.
        if [[ $suite == "$machine_suite" && -e /etc/apt/sources.list.d/debian.sources ]]; then
            rm -f "$root/etc/apt/sources.list"
            cp /etc/apt/sources.list.d/debian.sources "$root/etc/apt/sources.list.d/"
        fi
        cp -rL /etc/apt/{apt.conf.d,auth.conf.d,keyrings,trusted.gpg.d} "$root/etc/apt/" \
            2>/dev/null || true
        # The root lacks the services that these files call.
        rm -f "$root"/etc/apt/apt.conf.d/*{packagekit,appstream,docker}*
    fi
    cp -L /etc/resolv.conf /etc/hosts "$root/etc/" 2>/dev/null || true
    cp -rL /usr/local/share/ca-certificates "$root/usr/local/share/" 2>/dev/null || true
    mkdir -p "$root/etc/ssl/certs"
    cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
}

# mount_bare_root ROOT: mounts the file systems that programs in the root expect. If
# $BARE_ROOT_SHARED_FOLDER is set, also mounts this folder of the machine at the same path in the
# root. The caller must have a mount namespace of its own: `unshare --mount --propagation private
# --pid --fork`.
mount_bare_root() {
    local root=$1
    mount --bind "$root" "$root"
    mount -t proc proc "$root/proc"
    mount --rbind /sys "$root/sys"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs "$root/dev/shm"
    mount -t tmpfs -o mode=755,nosuid,nodev,noexec tmpfs "$root/run" # the options of Debian
    if [[ -n ${BARE_ROOT_SHARED_FOLDER-} ]]; then
        mkdir -p "$root$BARE_ROOT_SHARED_FOLDER"
        mount --rbind "$BARE_ROOT_SHARED_FOLDER" "$root$BARE_ROOT_SHARED_FOLDER"
    fi
}

# in_bare_root ROOT UID:GID COMMAND...: runs the command in the root, without the caller's
# variables. HOME and the working directory are $BARE_ROOT_HOME, by default /root. When the command
# ends, all processes that it has started end, too.
in_bare_root() {
    local root=$1 ids=$2 self
    shift 2
    self=$(realpath "${BASH_SOURCE[0]}")
    # shellcheck disable=SC2016 # The variables belong to the new shells.
    unshare --mount --propagation private --pid --fork --kill-child \
        env BARE_ROOT_FILE="$self" BARE_ROOT_HOME="${BARE_ROOT_HOME:-/root}" bash -euc '
        source "$BARE_ROOT_FILE"
        root=$1 ids=$2
        shift 2
        mount_bare_root "$root"
        exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
            HOME="$BARE_ROOT_HOME" LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
            chroot --userspec="$ids" --groups="" "$root" \
            /bin/sh -c '\''cd "$HOME" && exec "$@"'\'' sh "$@"' bash "$root" "$ids" "$@"
}
