#!/usr/bin/env bats
# Jobs in containers with Charliecloud. The tests use the ch-run of Debian's package; there is no
# stand-in for it.
# timeout: 200

load helpers
load containers
load secrets

setup() {
    write_container_job charliecloud 1 1
    echo "# ch-run $(as_user ch-run --version 2>&1)" >&3
    # The image is a folder, as on a cluster where the user has unpacked it.
    folder=$dir/image
    as_user unsquashfs -no-progress -quiet -dest "$folder" "$images/tiny.sqsh" >/dev/null
    # Every image of a distribution has this folder and these files.
    as_user mkdir "$folder/home"
    as_user touch "$folder"/etc/{passwd,group}
    as_user sed -i "s|^  image: .*|  image: $folder|" "$dir/job.yaml"
}

supports_write_fake() { [[ $(ch-run --help 2>&1) == *--write-fake* ]]; }

@test "every rank is in the image, with the job's variables and mounts, without the home" {
    local commands=(
        'cat /etc/os-release; echo "rank $DLRUN_RANK of $DLRUN_WORLD_SIZE is $SLURM_PROCID";'
        'printf "<%s>\n" "$IN_BOTH" "$ONLY_IMAGE" "$LINES_OF_TEXT" "$QUOTED" "$EMPTY";'
        'env | grep DLRUN_KEPT || echo nothing-kept;'
        'pwd; cat /data/file; touch /data/new && echo rw; touch /new || echo root-ro;'
        'test -d "/odd ä" && echo odd-there; id -u;'
        "ls $DLRUN_TESTBED_HOME/canary $dir/job.yaml 2>/dev/null || echo no-home"
    )
    run inside "${commands[*]}" \
        --set resources.nodes=2 --set resources.tasks_per_node=2 --set container.workdir=/etc \
        --set "container.mounts=['$dir/data:/data', '$dir/odd ä:/odd ä']" \
        --set environment.vars.IN_BOTH=job --set environment.vars.EMPTY= \
        --set 'environment.vars.LINES_OF_TEXT="one\nEVIL=1 {two}"' \
        --set "environment.vars.QUOTED=\"it's \\\"\$PATH:\$HOME\\\"\""
    echo "$output"
    [ "$status" -eq 0 ]
    has_lines ID=dlrun-test "rank 0 of 4 is 0" '<job>' '<image>' '<one' 'EVIL=1 {two}>' \
        "<it's \"\$PATH:\$HOME\">" '<>' nothing-kept /etc from-data rw root-ro no-home \
        odd-there "$(id -u "$DLRUN_TESTBED_USER")"
    [[ $output != *canary* && $output != *job.yaml* ]]
    output=$(dl logs last)
    [ "$(grep -c '^\(.*: \)\?ID=dlrun-test' <<<"$output")" -eq 4 ]
    for rank in 1 2 3; do [[ $output == *"rank $rank of 4 is $rank"* ]]; done
}

@test "mount_home and remap_root take effect, and so does writable unless ch-run is too old" {
    run inside 'ls ~/canary; id -u' --set container.mount_home=true --set container.remap_root=true
    echo "$output"
    [ "$status" -eq 0 ]
    has_lines "/home/$DLRUN_TESTBED_USER/canary" 0
    run inside 'touch /new && ls /new' --set container.writable=true
    echo "$output"
    if supports_write_fake; then
        [ "$status" -eq 0 ]
        has_lines /new
    else
        [ "$status" -ne 0 ]
        [[ $output == *"container.writable needs charliecloud 0.36 or newer; n1 has "* ]]
        [ "$(dl status last --json | jq -r '.restarts | length')" = 0 ]
    fi
    [ ! -e "$folder/new" ]
}

@test "a link in the image cannot move a mount point out of the image" {
    as_user mkdir "$dir/outside"
    as_user ln -s "$dir/outside" "$folder/link"
    run inside 'true' --set "container.mounts=['$dir/data:/link/inside']"
    echo "$output"
    [ -z "$(ls -A "$dir/outside")" ]
}

@test "an MPI program of 2 nodes x 2 ranks runs in the container, with the image's libraries" {
    run_mpi_chain_on_two_nodes "$dir/mpi"
}

@test "ch-run mounts a squashfs image by itself if the image has the mount points" {
    as_user mkdir -p "$folder$dir/runs"
    as_user mksquashfs "$folder" "$dir/image.sqfs" -no-progress -quiet >/dev/null
    run inside 'cat /etc/os-release; echo "$IN_BOTH $ONLY_IMAGE"' --runs "$dir/runs" \
        --set "container.image=$dir/image.sqfs" --set environment.vars.IN_BOTH=job
    echo "$output"
    [ "$status" -eq 0 ]
    has_lines ID=dlrun-test "job image"
}

@test "an invalid image fails the job with ch-run's message, without a restart" {
    echo nonsense >"$dir/bad.sqfs"
    chmod a+r "$dir/bad.sqfs"
    run dl submit job.yaml --watch --set "container.image=$dir/bad.sqfs" \
        --set retry.on='[failure]' --set retry.max=2
    echo "$output"
    [ "$status" -eq 5 ]
    [[ $output == *"it is neither a folder nor a squashfs file"* ]]
    [[ $output == *"the container on n1 could not be started: unknown image type"* ]]
    [ "$(dl status last --json | jq -r .state)" = failed ]
    [ "$(dl status last --json | jq -r '.restarts | length')" = 0 ]
}

@test "interactive and attach enter the same image" {
    run dl interactive job.yaml --set environment.vars.IN_BOTH=job \
        -- sh -c 'cat /etc/os-release; echo "$IN_BOTH"; exit 3'
    echo "$output"
    [ "$status" -eq 3 ]
    [[ $output == *ID=dlrun-test*job* ]]
    check_attach_in_container
}

@test "secrets reach only the program in the container, also in an interactive session" {
    check_secrets_in_container
}
