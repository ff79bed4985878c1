# shellcheck shell=bash
# pyxis, enroot and apptainer: the machine's own, or the stand-ins that the test build makes (see containers/).

installed_pyxis() {
    local path
    for path in /usr/local/lib/slurm /usr/lib/slurm /usr/lib/"$(uname -m)"-linux-gnu/{slurm,slurm-wlm}; do
        [[ ! -e $path/spank_pyxis.so ]] || { echo "$path/spank_pyxis.so" && return; }
    done
    return 1
}

# enable_containers DIR: DIR holds the stand-ins. Programs of the state directory, so that every node sees them.
enable_containers() {
    local dir=$state/containers plugin enroot kind=stand-in
    [[ -x $1/enroot && -x $1/apptainer && -e $1/pyxis.so ]] || die "--containers: there are no stand-ins in '$1': build them (cmake --build)"
    mkdir -p "$dir/bin" "$dir/registry"
    if plugin=$(installed_pyxis) && enroot=$(command -v enroot); then
        kind=installed
        echo "required $plugin" >"$state/etc/plugstack.d/containers.conf"
    else
        # Whole files only: a step may be reading the old ones.
        enroot=$dir/bin/enroot plugin=$dir/pyxis.so
        install "$1/enroot" "$enroot.new" && mv "$enroot.new" "$enroot"
        install "$1/pyxis.so" "$plugin.new" && mv "$plugin.new" "$plugin"
        echo "required $plugin enroot=$enroot spool=$state/nodes/%n/spool" >"$state/etc/plugstack.d/containers.conf"
    fi
    # Apptainer goes by itself: it is last on the users' PATH, after one that is installed.
    install "$1/apptainer" "$dir/bin/apptainer.new" && mv "$dir/bin/apptainer.new" "$dir/bin/apptainer"
    echo "$kind" >"$dir/kind"
    say "containers: $kind pyxis ($plugin) and enroot ($enroot)"
}
