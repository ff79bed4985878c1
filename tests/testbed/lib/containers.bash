# shellcheck shell=bash
# Enables pyxis, enroot and apptainer in the testbed: those installed on this machine, or the
# stand-ins of the test build (see containers/).

# Prints the path of the pyxis that is installed on this machine. Fails if there is none, or if the
# testbed uses another Slurm (--slurm).
installed_pyxis() {
    local path
    [[ -z $slurm ]] || return 1
    for path in /usr/local/lib/slurm /usr/lib/slurm \
        /usr/lib/"$(uname -m)"-linux-gnu/{slurm,slurm-wlm}; do
        [[ ! -e $path/spank_pyxis.so ]] || { echo "$path/spank_pyxis.so" && return; }
    done
    return 1
}

# use_containers_of PREFIX: uses the pyxis and the enroot that are installed under PREFIX. Sets
# plugin and enroot. Links the programs into a folder on the PATH of slurmd and of the users.
use_containers_of() {
    local program
    plugin=$1/lib/slurm/spank_pyxis.so enroot=$1/bin/enroot
    [[ -e $plugin && -x $enroot ]] ||
        die "DLRUN_TESTBED_CONTAINERS_PREFIX: '$1' lacks lib/slurm/spank_pyxis.so or bin/enroot"
    for program in "$1"/bin/enroot*; do
        ln -sfn "$program" "$state/containers/bin/${program##*/}"
    done
}

# enable_containers DIR: enables pyxis and enroot: those of DLRUN_TESTBED_CONTAINERS_PREFIX, or else
# the installed ones (not with --slurm), or else the stand-ins in DIR. Also enables the stand-in for
# apptainer. Copies the stand-ins that it enables into the state directory, which every node sees.
# Fails if DIR lacks any of the stand-ins.
enable_containers() {
    local dir=$state/containers plugin enroot kind=stand-in stand_in=$1/pyxis.so
    # A SPANK plugin works only with the Slurm version that it was compiled for.
    if [[ -n $slurm ]]; then
        stand_in=$1/pyxis-$(slurm_version).so
        [[ -e $stand_in ]] ||
            die "--containers: there is no '$stand_in': configure with" \
                "-DDLRUN_TESTBED_SLURM=$slurm and build"
    fi
    [[ -e $stand_in && -x $1/enroot && -x $1/apptainer ]] ||
        die "--containers: '$1' lacks pyxis.so, enroot or apptainer: build these stand-ins" \
            "(scripts/setup --test, then cmake)"
    mkdir -p "$dir/bin" "$dir/registry"
    if [[ -n ${DLRUN_TESTBED_CONTAINERS_PREFIX:-} ]]; then
        kind=installed
        use_containers_of "$DLRUN_TESTBED_CONTAINERS_PREFIX"
    elif plugin=$(installed_pyxis) && enroot=$(command -v enroot); then
        kind=installed
    fi
    if [[ $kind == installed ]]; then
        # Each node has a /tmp of its own.
        echo "required $plugin runtime_path=/tmp/pyxis" >"$state/etc/plugstack.d/containers.conf"
    else
        # Replaces whole files, because a step may still use the old ones.
        enroot=$dir/bin/enroot plugin=$dir/pyxis.so
        install "$1/enroot" "$enroot.new" && mv "$enroot.new" "$enroot"
        install "$stand_in" "$plugin.new" && mv "$plugin.new" "$plugin"
        echo "required $plugin enroot=$enroot spool=$state/nodes/%n/spool" \
            >"$state/etc/plugstack.d/containers.conf"
    fi
    install "${BASH_SOURCE%/lib/*}/containers/nvidia-container-cli" "$dir/bin/nvidia-container-cli"
    # Apptainer needs no plugin. The stand-in is last on the users' PATH, after an
    # installed apptainer.
    install "$1/apptainer" "$dir/bin/apptainer.new" && mv "$dir/bin/apptainer.new" \
        "$dir/bin/apptainer"
    echo "$kind" >"$dir/kind"
    say "containers: $kind pyxis ($plugin) and enroot ($enroot)"
}
