#!/usr/bin/env bats
# dlrun container: importing images once, and the findings of `check` about images.
# timeout: 200

load helpers
load containers

setup_file() {
    [[ ${DLRUN_TESTBED_CONTAINERS:-} == stand-in ]] || return 0
    make_root "$BATS_FILE_TMPDIR/root"
    registry=$DLRUN_TESTBED_DIR/containers/registry
    make_image "$BATS_FILE_TMPDIR/root" "$registry/reg.example+team+tiny+1.sqsh"
    export registry
}

# bats continues after a skip in setup_file.
setup() {
    containers_are_there
    if [[ $BATS_TEST_DESCRIPTION != *unreachable* && $DLRUN_TESTBED_CONTAINERS != stand-in ]]; then
        skip "an installed enroot imports from registries, which the testbed cannot reach"
    fi
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
    as_user bash -c 'cd "$1" && export DLRUN_IMAGES="$1/images" && shift && exec dlrun "$@"' \
        - "$dir" "$@"
}
name='reg.example#team/tiny:1'

@test "an image is imported once, as a file named by its digest that a job runs in, and listed" {
    run dl container import "$name" --json
    echo "$output"
    [ "$status" -eq 0 ]
    file=$(sed -n '/^{/,/^}/p' <<<"$output" | jq -r .file)
    digest=$(sha256sum <"$registry/reg.example+team+tiny+1.sqsh")
    [ "$file" = "$dir/images/${digest%% *}.sqsh" ]
    run dl container import docker://reg.example/team/tiny:1
    [ "$status" -eq 0 ]
    [[ $output == *"$file"*"already here"* ]]
    [[ $output != *Fetching* ]]
    [ "$(dl container list --json | jq -r '.[0].file')" = "$file" ]
    run dl submit job.yaml --watch --set "container.image=$file"
    [ "$status" -eq 0 ]
    [[ $output == *ID=dlrun-test* ]]
    path=$(dl status last --json | jq -r .path)
    jq -e --arg digest "${digest%% *}" '.image.digest == $digest and .image.bytes > 0' \
        "$path/provenance.json"
}

@test "many imports of one image at once fetch it once, and all get the same whole file" {
    for i in {1..12}; do
        dl container import "$name" >"$BATS_TEST_TMPDIR/out.$i" 2>"$BATS_TEST_TMPDIR/err.$i" &
    done
    wait
    [ "$(sort -u "$BATS_TEST_TMPDIR"/out.* | wc -l)" -eq 1 ]
    cmp "$(cat "$BATS_TEST_TMPDIR/out.1")" "$registry/reg.example+team+tiny+1.sqsh"
    [ "$(cat "$BATS_TEST_TMPDIR"/err.* | grep -c Fetching)" -eq 1 ]
    [ -z "$(find "$dir/images" -name '.importing-*')" ]
}

@test "a name whose image has changed in the registry is imported anew" {
    cp "$registry/reg.example+team+tiny+1.sqsh" "$registry/reg.example+team+moving+latest.sqsh"
    first=$(dl container import 'reg.example#team/moving' 2>/dev/null)
    cp -a "$BATS_FILE_TMPDIR/root" "$BATS_TEST_TMPDIR/root"
    touch "$BATS_TEST_TMPDIR/root/new"
    make_image "$BATS_TEST_TMPDIR/root" "$registry/reg.example+team+moving+latest.sqsh"
    second=$(dl container import 'reg.example#team/moving' 2>/dev/null)
    [ "$first" != "$second" ]
    [ -e "$first" ] && [ -e "$second" ]
}

@test "an image that the registry does not have leaves nothing and ends with 6; a file's name is refused" {
    run dl container import nowhere.example#no/such
    echo "$output"
    [ "$status" -eq 6 ]
    [[ $output == *404* ]]
    [ -z "$(find "$dir/images" -name '*.sqsh')" ]
    run dl container import ./a.sqsh
    [ "$status" -eq 2 ]
}

@test "check says that a name is a file here, that an image is imported already, and that enroot alone wants a file" {
    as_user touch "$dir/plain-file"
    run dl check job.yaml --set container.runtime=pyxis --set container.image=plain-file
    [[ $output == *"write ./plain-file"* ]]
    file=$(dl container import "$name" 2>/dev/null)
    run dl check job.yaml --set container.runtime=pyxis --set "container.image=$name"
    echo "$output"
    [[ $output == *"it was imported once: give $file"* ]]
    run dl check job.yaml --set "container.image=$name"
    [ "$status" -eq 2 ]
    [[ $output == *"dlrun container import $name"* ]]
}

@test "a registry that is unreachable from here is told as that, and ends with 4" {
    run dl container import unreachable.invalid#team/tiny:1
    echo "$output"
    [ "$status" -eq 4 ]
    image=docker://unreachable.invalid#team/tiny:1
    [[ $output == *"the registry of $image cannot be reached from here: curl: (6)"* ]]
    [ -z "$(find "$dir/images" -name '*.sqsh')" ]
}
