# shellcheck shell=bash
# Functions of scripts/package, scripts/package-check and tests/packages. The scripts that source
# this file set nullglob.

# pack BUILD KIND FOLDER [OPTION...]: lets cpack make the packages of one kind (TGZ, DEB or RPM).
# TGZ needs SOURCE_DATE_EPOCH.
pack() {
    local build=$1 kind=$2 folder=$3 archive
    shift 3
    cpack --config "$build/CPackConfig.cmake" -G "$kind" -B "$folder" "$@" || return
    rm -rf "$folder/_CPack_Packages"
    [[ $kind == TGZ ]] || return 0
    for archive in "$folder"/dlrun-*-linux-*.tar.gz; do
        give_to_root "$archive" || return
    done
}

# give_to_root ARCHIVE: packs the files again, so that root owns them and the same files always make
# the same archive. cpack writes the user and the group of the person who builds; when root unpacks
# such an archive, tar gives the files to the user with the same number.
give_to_root() {
    local archive=$1 files=$1.files
    mkdir "$files" &&
        tar -C "$files" --no-same-owner --same-permissions -xzf "$archive" &&
        (cd "$files" && tar --owner=root:0 --group=root:0 --sort=name \
            --mtime="@${SOURCE_DATE_EPOCH:?}" --format=gnu -cf - -- *) | gzip -9n >"$archive.new" &&
        mv "$archive.new" "$archive" &&
        rm -rf "$files"
}

# remove_packages FOLDER: removes the files that scripts/package has written there earlier, of any
# version, and no other file.
remove_packages() {
    rm -f "$1"/dlrun{,-trainer,-dev}_[0-9]*.deb "$1"/dlrun{,-trainer,-devel}-[0-9]*.rpm \
        "$1"/dlrun-[0-9]*.tar.gz "$1"/dlrun-[0-9]*.eb "$1/sha256sums"
    rm -rf "$1/spack/packages/dlrun"
}

# older_deb DEB FOLDER: writes a copy of the package, but with the version number 0.0.1, into the
# folder.
older_deb() {
    local deb=$1 folder=$2 files version
    version=$(dpkg-deb -f "$deb" Version)
    files=$(mktemp -d "$folder/.files.XXXXXX")
    chmod 755 "$files"
    dpkg-deb -R "$deb" "$files"
    # Also change the exact versions with which the packages depend on each other.
    sed -i -e 's/^Version: .*/Version: 0.0.1/' -e "s/(= ${version//./\\.})/(= 0.0.1)/g" \
        "$files/DEBIAN/control"
    dpkg-deb --root-owner-group -Zgzip -z1 -b "$files" \
        "$folder/$(dpkg-deb -f "$deb" Package)_0.0.1_$(dpkg-deb -f "$deb" Architecture).deb"
    rm -rf "$files"
}
