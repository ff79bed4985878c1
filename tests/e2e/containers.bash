# shellcheck shell=bash
# For files whose jobs run in containers. Images are small ones of our own, so that nothing is fetched: $images/tiny.sqsh is there for
# the duration of a file that loads this.
#
#   inside LINE [ARGUMENTS]  submits job.yaml with this line of shell; prints what rank 0 printed in the container, or, where it failed, the
#                            job's words
#   make_root DIR            a root file system of busybox, with an os-release and an environment of its own
#   make_image DIR FILE      that as a squashfs image
#   copy_program FILE DIR    a program of this machine with the libraries that it is linked with, into a root
#   containers_are_there     says with what the tests run; fails where there is nothing, skips where the kernel lets nobody make a container

containers_are_there() {
    [[ -n ${DLRUN_TESTBED_CONTAINERS:-} ]] || {
        echo "the testbed has no pyxis and enroot: it was brought up without --containers" >&2
        return 1
    }
    as_user unshare --user --map-root-user true || skip "users may not make namespaces here"
    echo "# pyxis and enroot: $DLRUN_TESTBED_CONTAINERS" >&3
}

make_root() {
    mkdir -p "$1"/{bin,etc,tmp,proc,sys,dev,mnt,root}
    cp "$(command -v busybox)" "$1/bin/busybox"
    local name
    for name in sh cat env grep id ls pwd sleep test touch true echo mount hostname kill; do ln -s busybox "$1/bin/$name"; done
    printf 'ID=dlrun-test\nPRETTY_NAME="an image of dlrun'\''s tests"\n' >"$1/etc/os-release"
    printf 'PATH=/bin\nONLY_IMAGE=image\nIN_BOTH=image\n' >"$1/etc/environment"
}

make_image() {
    rm -f "$2"
    mksquashfs "$1" "$2" -all-root -no-progress -quiet >/dev/null
    chmod 644 "$2"
}

copy_program() {
    local library
    install -D "$1" "$2/${1##*/}"
    ldd "$1" | grep -o '/[^ ]*' | while read -r library; do install -D "$library" "$2$library"; done
}

setup_file() {
    containers_are_there
    images=$(BATS_TEST_DESCRIPTION=images fresh_dir)
    make_root "$BATS_FILE_TMPDIR/root"
    make_image "$BATS_FILE_TMPDIR/root" "$images/tiny.sqsh"
    export images
}

inside() {
    local line=$1
    shift
    dl submit job.yaml --set "launch.command=[sh, -c, '${line//\'/\'\'}']" "$@" >&2
    dl wait last >&2 || { dl logs last >&2 && return 1; }
    dl logs last --rank 0
}
