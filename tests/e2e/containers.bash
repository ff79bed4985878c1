# shellcheck shell=bash
# For test files whose jobs run in containers. The images are small and made here, so no download is
# needed. setup_file creates $images/tiny.sqsh, the image of write_container_job.
#
#   write_container_job RUNTIME NODES TASKS_PER_NODE
#                            sets dir to a new directory with job.yaml, whose container has the
#                            image tiny.sqsh, and with data/file and "odd ä" for mounts.
#                            Writes the file canary into the home; calls require_containers
#   inside LINE [OPTION...]  submits job.yaml with these options of `dlrun submit`, and with this
#                            line of shell as its program; waits for the end and prints the output
#                            of rank 0. If the job has failed, prints the log on standard error and
#                            fails
#   has_lines LINE...        succeeds if $output has each of these as a whole line
#   check_attach_in_container
#                            runs a job, and checks that a command beside its ranks sees the image
#                            and the job's mount, and that ssh-config says that ssh sessions run
#                            outside the container
#   make_root DIR            makes a root file system of busybox, with an os-release and an
#                            environment of its own
#   make_image DIR FILE      makes a squashfs image of DIR
#   make_mpi_root DIR        makes a root like make_root, with mpi_chain and all that Open MPI needs
#   run_mpi_chain_on_two_nodes [FOLDER]
#                            makes an image with make_mpi_root unless a current one exists; if
#                            FOLDER is given, unpacks the image there; runs mpi_chain in it on
#                            2 nodes x 2 ranks, and checks the output
#   copy_program FILE DIR    copies a program of this machine with its shared libraries into a root
#   require_containers       fails without container programs, skips if the kernel allows no
#                            containers; call it in setup, not in setup_file
#   as_user_on_node NODE COMMAND...
#                            runs the command as the user on a node
#   make_imported_root DIR   makes a root like those that enroot imports from a registry: /etc/rc
#                            changes to the work directory /work and runs the entry point, which
#                            exports IN_BOTH=entry-point and prints that it ran

require_containers() {
    [[ -n ${DLRUN_TESTBED_CONTAINERS:-} ]] || {
        echo "the testbed has no containers: it was brought up without --containers" >&2
        return 1
    }
    as_user unshare --user --map-root-user true || skip "users may not make namespaces here"
}

make_root() {
    mkdir -p "$1"/{bin,etc,tmp,proc,sys,dev,mnt,root}
    cp "$(command -v busybox)" "$1/bin/busybox"
    local name
    for name in sh cat env grep id ls pwd sleep test touch true echo mount hostname kill; do
        ln -s busybox "$1/bin/$name"
    done
    printf 'ID=dlrun-test\nPRETTY_NAME="an image of dlrun'\''s tests"\n' >"$1/etc/os-release"
    printf 'PATH=/bin\nONLY_IMAGE=image\nIN_BOTH=image\nMY_KEY=image\n' >"$1/etc/environment"
    install -D "$1/etc/environment" "$1/ch/environment" # Charliecloud reads this file.
    mkdir -p "$1/.singularity.d/env" # Images of apptainer have their environment in this folder.
    echo 'export ONLY_IMAGE=image IN_BOTH=image MY_KEY=image' \
        >"$1/.singularity.d/env/90-environment.sh"
    printf '#!/bin/sh\necho entered by the runscript\nexec "$@"\n' >"$1/.singularity.d/runscript"
    chmod +x "$1/.singularity.d/runscript"
}

make_image() {
    rm -f "$2"
    mksquashfs "$1" "$2" -Xcompression-level 1 -all-root -no-progress -quiet >/dev/null
    chmod 644 "$2"
}

make_mpi_root() {
    local libraries folder library
    cp -a "$BATS_FILE_TMPDIR/root" "$1"
    copy_program "$DLRUN_BUILD_DIR/bin/mpi_chain" "$1"
    libraries=/usr/lib/$(uname -m)-linux-gnu
    # The files that Open MPI and PMIx load at run time, and their shared libraries.
    for folder in "$libraries"/{openmpi/lib/openmpi3,pmix2/lib/pmix} /usr/share/openmpi \
        /etc/openmpi; do
        mkdir -p "$1$folder" && cp -aL "$folder/." "$1$folder"
    done
    find "$1$libraries"/{openmpi,pmix2} -name '*.so' -print0 | xargs -0 ldd 2>/dev/null |
        grep -o ' /[^ ]*' | sort -u |
        while read -r library; do install -D "$library" "$1$library"; done
}

run_mpi_chain_on_two_nodes() {
    # The first test file that needs this image makes it for all test files, because making it takes
    # long.
    local line image=$DLRUN_TESTBED_DIR/containers/mpi.sqsh
    if [[ ! $image -nt $DLRUN_BUILD_DIR/bin/mpi_chain ]]; then
        make_mpi_root "$BATS_TEST_TMPDIR/root"
        make_image "$BATS_TEST_TMPDIR/root" "$image"
    fi
    if [[ $# -gt 0 ]]; then
        as_user unsquashfs -no-progress -quiet -dest "$1" "$image" >/dev/null || return 1
        as_user touch "$1"/etc/{passwd,group}
        image=$1
    fi
    run dl submit job.yaml --watch --set resources.nodes=2 --set resources.tasks_per_node=2 \
        --set "container.image=$image" \
        --set resources.time=1m --set launch.preset=mpi --set launch.command='[/mpi_chain]'
    echo "$output"
    [ "$status" -eq 0 ] || return 1
    for line in "rank 0 of 4 on n1: 1" "rank 1 of 4 on n1: 2" "rank 2 of 4 on n2: 3" \
        "rank 3 of 4 on n2: 4"; do
        [[ $output == *"$line"* ]] || return 1
    done
    [[ $output != *"Operation not permitted"* ]]
}

make_imported_root() {
    cp -a "$BATS_FILE_TMPDIR/root" "$1"
    mkdir -p "$1/work"
    printf '#!/bin/sh\necho the entry point ran\nexport IN_BOTH=entry-point\nexec "$@"\n' \
        >"$1/bin/entry"
    chmod +x "$1/bin/entry"
    printf '%s\n' 'cd /work && unset OLDPWD || exit 1' 'if [ -s /etc/rc.local ]; then' \
        '    . /etc/rc.local' 'fi' \
        "exec '/bin/entry' \"\$@\"" >"$1/etc/rc"
    echo '# sourced by /etc/rc' >"$1/etc/rc.local"
}

as_user_on_node() {
    local node=$1
    shift
    "$testbed/on_node" "$node" setpriv --reuid="$DLRUN_TESTBED_USER" --regid="$DLRUN_TESTBED_USER" \
        --clear-groups \
        env HOME="$DLRUN_TESTBED_HOME" "$@"
}

copy_program() {
    local library
    install -D "$1" "$2/${1##*/}"
    ldd "$1" | grep -o '/[^ ]*' | while read -r library; do install -D "$library" "$2$library"; done
}

setup_file() {
    echo "# pyxis and enroot: ${DLRUN_TESTBED_CONTAINERS:-none}" >&3
    images=$(BATS_TEST_DESCRIPTION=images fresh_dir)
    make_root "$BATS_FILE_TMPDIR/root"
    make_image "$BATS_FILE_TMPDIR/root" "$images/tiny.sqsh"
    export images
}

write_container_job() {
    require_containers # bats ignores a skip in setup_file, so each test calls it.
    dir=$(fresh_dir)
    as_user mkdir "$dir/data" "$dir/odd ä"
    as_user tee "$dir/data/file" <<<from-data >/dev/null
    as_user tee "$dir/job.yaml" >/dev/null <<YAML
name: boxed
resources: {nodes: $2, tasks_per_node: $3, time: 5m}
container:
  runtime: $1
  image: $images/tiny.sqsh
launch: {preset: plain, command: [cat, /etc/os-release]}
YAML
    as_user touch canary # Jobs look for this file in the home directory.
}

has_lines() {
    local line
    for line in "$@"; do
        grep -Fqx -- "$line" <<<"$output" || { echo "not printed: $line" && return 1; }
    done
}

check_attach_in_container() {
    local program='touch /data/began; until [ -e /data/go ]; do sleep 0.1; done'
    dl submit job.yaml --set "launch.command=[sh, -c, '$program']" \
        --set "container.mounts=['$dir/data:/data']"
    wait_until 60 test -e "$dir/data/began"
    run dl attach last -- cat /etc/os-release /data/file </dev/null
    echo "$output"
    [[ $status == 0 && $output == *ID=dlrun-test*from-data* ]] || return 1
    run dl ssh-config last
    echo "$output"
    [[ $status == 0 && $output == *"the ranks run in a container, and ssh sessions run outside"* ]] ||
        return 1
    as_user touch "$dir/data/go"
    dl wait last
}

inside() {
    local line=$1
    shift
    dl submit job.yaml --set "launch.command=[sh, -c, '${line//\'/\'\'}']" "$@" >&2
    dl wait last >&2 || { dl logs last >&2 && return 1; }
    dl logs last --rank 0
}
