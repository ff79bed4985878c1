# shellcheck shell=bash
# Images for the container tests: small ones of our own, so that nothing is fetched.
#
#   make_root DIR            a root file system of busybox, with an os-release and an environment of its own
#   make_image DIR FILE      that as a squashfs image
#   copy_program FILE DIR    a program of this machine with the libraries that it is linked with, into a root
#   containers_are_there     says with what the tests run; fails where there is nothing

containers_are_there() {
    [[ -n ${DLRUN_TESTBED_CONTAINERS:-} ]] || {
        echo "the testbed has no pyxis and enroot: it was brought up without --containers" >&2
        return 1
    }
    echo "# pyxis and enroot: $DLRUN_TESTBED_CONTAINERS" >&3
}

make_root() {
    mkdir -p "$1"/{bin,etc,tmp,proc,sys,dev,mnt}
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
