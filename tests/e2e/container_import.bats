#!/usr/bin/env bats
# dlrun container: importing images once, and the findings of `check` about images.
# timeout: 200

load helpers
load containers

# The stand-in's registry is a folder of squashfs files. An installed enroot gets a registry on
# loopback if docker-registry, skopeo and umoci (Debian packages) are installed.
setup_file() {
    make_root "$BATS_FILE_TMPDIR/root"
    case ${DLRUN_TESTBED_CONTAINERS:-} in
    stand-in) export registry=reg.example ;;
    installed)
        local program
        for program in docker-registry skopeo umoci; do
            command -v "$program" >/dev/null || return 0
        done
        start_registry
        ;;
    *) return 0 ;;
    esac
    push team/tiny 1 "$BATS_FILE_TMPDIR/root"
}
teardown_file() {
    [[ ! -e $BATS_FILE_TMPDIR/registry.pid ]] || kill "$(<"$BATS_FILE_TMPDIR/registry.pid")"
}

# start_registry: starts a registry without TLS on a free port of loopback, and waits until it
# answers; sets registry to its HOST:PORT
start_registry() {
    local port
    port=$(python3 -c 'import socket; s = socket.create_server(("127.0.0.1", 0))
print(s.getsockname()[1])')
    export registry=127.0.0.1:$port
    cat >"$BATS_FILE_TMPDIR/registry.yml" <<YAML
version: 0.1
storage: {filesystem: {rootdirectory: $BATS_FILE_TMPDIR/storage}}
http: {addr: $registry}
YAML
    docker-registry serve "$BATS_FILE_TMPDIR/registry.yml" >"$BATS_FILE_TMPDIR/registry.log" 2>&1 3>&- &
    echo $! >"$BATS_FILE_TMPDIR/registry.pid"
    curl -sS --retry 20 --retry-connrefused --retry-delay 1 -o /dev/null "http://$registry/v2/"
}

# push IMAGE TAG DIR: puts a root file system into the registry
push() {
    local store=$DLRUN_TESTBED_DIR/containers/registry layout
    if [[ $DLRUN_TESTBED_CONTAINERS == stand-in ]]; then
        make_image "$3" "$store/$registry+${1//\//+}+$2.sqsh"
        return
    fi
    layout=$(mktemp -d "$BATS_FILE_TMPDIR/layout.XXXXXX")
    umoci init --layout "$layout/image"
    umoci new --image "$layout/image:$2"
    umoci insert --image "$layout/image:$2" "$3" /
    umoci config --image "$layout/image:$2" --config.env PATH=/bin --config.cmd sh
    skopeo --insecure-policy copy --quiet --format v2s2 --dest-tls-verify=false \
        "oci:$layout/image:$2" "docker://$registry/$1:$2"
}

# bats ignores a skip in setup_file, so each test checks what it needs.
setup() {
    require_containers
    if [[ $BATS_TEST_DESCRIPTION != *unreachable* && -z ${registry:-} ]]; then
        skip "an installed enroot needs docker-registry, skopeo and umoci here"
    fi
    name="${registry:-}#team/tiny:1"
    dir=$(fresh_dir)
    cat >"$dir/job.yaml" <<YAML
name: boxed
resources: {nodes: 1, tasks_per_node: 1, time: 5m}
container: {runtime: enroot, image: ./tiny.sqsh}
launch: {preset: plain, command: [cat, /etc/os-release]}
YAML
    chown "$DLRUN_TESTBED_USER:" "$dir/job.yaml"
}

dl() {
    as_user bash -c 'cd "$1" && export DLRUN_IMAGES="$1/images" ENROOT_ALLOW_HTTP=yes && shift &&
        exec dlrun "$@"' - "$dir" "$@"
}
# digest_of_tiny FILE: prints the image's digest: the one that the registry gives, or with the
# stand-in the digest of FILE
digest_of_tiny() {
    local digest
    if [[ $DLRUN_TESTBED_CONTAINERS == stand-in ]]; then
        digest=$(sha256sum <"$1")
    else
        digest=$(skopeo inspect --tls-verify=false --format '{{.Digest}}' \
            "docker://$registry/team/tiny:1")
        digest=${digest#sha256:}
    fi
    echo "${digest%% *}"
}

@test "an image is imported once into a file with its digest as name, listed, and used by a job" {
    run dl container import "$name" --json
    echo "$output"
    [ "$status" -eq 0 ]
    sed -n '/^{/,/^}/p' <<<"$output" | has_fields_of container#import
    file=$(sed -n '/^{/,/^}/p' <<<"$output" | jq -r .file)
    digest=$(digest_of_tiny "$file")
    [ "$file" = "$dir/images/$digest.sqsh" ]
    run dl container import "docker://$registry/team/tiny:1"
    [ "$status" -eq 0 ]
    [[ $output == *"$file"*"already here"* ]]
    [[ $output != *"Creating squashfs"* ]]
    [ "$(dl container list --json | jq -r '.[0].file')" = "$file" ]
    run dl submit job.yaml --watch --set "container.image=$file"
    [ "$status" -eq 0 ]
    [[ $output == *ID=dlrun-test* ]]
    path=$(dl status last --json | jq -r .path)
    jq -e --arg digest "$digest" '.image.digest == $digest and .image.bytes > 0' \
        "$path/provenance.json"
}

@test "many simultaneous imports of one image fetch it once, and all get the same complete file" {
    for i in {1..12}; do
        dl container import "$name" >"$BATS_TEST_TMPDIR/out.$i" 2>"$BATS_TEST_TMPDIR/err.$i" &
    done
    wait
    [ "$(sort -u "$BATS_TEST_TMPDIR"/out.* | wc -l)" -eq 1 ]
    file=$(cat "$BATS_TEST_TMPDIR/out.1")
    [ "$file" = "$dir/images/$(digest_of_tiny "$file").sqsh" ]
    [ "$(cat "$BATS_TEST_TMPDIR"/err.* | grep -c 'Creating squashfs')" -eq 1 ]
    [ -z "$(find "$dir/images" -name '.importing-*')" ]
}

@test "a name whose image has changed in the registry is imported again" {
    push team/moving latest "$BATS_FILE_TMPDIR/root"
    first=$(dl container import "$registry#team/moving" 2>/dev/null)
    cp -a "$BATS_FILE_TMPDIR/root" "$BATS_TEST_TMPDIR/root"
    touch "$BATS_TEST_TMPDIR/root/new"
    push team/moving latest "$BATS_TEST_TMPDIR/root"
    second=$(dl container import "$registry#team/moving" 2>/dev/null)
    [ "$first" != "$second" ]
    [ -e "$first" ] && [ -e "$second" ]
}

@test "an image that the registry lacks leaves no file and exits with 6" {
    run dl container import "$registry#no/such"
    echo "$output"
    [ "$status" -eq 6 ]
    [[ $output == *404* ]]
    [ -z "$(find "$dir/images" -name '*.sqsh')" ]
    run dl container import ./a.sqsh
    [ "$status" -eq 2 ]
}

@test "check suggests an imported file, the import that enroot needs, or ./ for a local file" {
    as_user touch "$dir/plain-file"
    run dl check job.yaml --set container.runtime=pyxis --set container.image=plain-file
    [[ $output == *"write ./plain-file"* ]]
    file=$(dl container import "$name" 2>/dev/null)
    run dl check job.yaml --set container.runtime=pyxis --set "container.image=$name"
    echo "$output"
    [[ $output == *"has stored it: give $file"* ]]
    run dl check job.yaml --set "container.image=$name"
    [ "$status" -eq 2 ]
    [[ $output == *"dlrun container import $name"* ]]
}

@test "a registry that is unreachable is reported as unreachable, with exit code 4" {
    run dl container import unreachable.invalid#team/tiny:1
    echo "$output"
    [ "$status" -eq 4 ]
    image=docker://unreachable.invalid#team/tiny:1
    [[ $output == *"the registry of $image cannot be reached from here: curl: (6)"* ]]
    [ -z "$(find "$dir/images" -name '*.sqsh')" ]
}
