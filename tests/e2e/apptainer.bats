#!/usr/bin/env bats
# Jobs in containers with apptainer. Most built-in sites with a container runtime have apptainer.
# The tests use the installed apptainer, or the testbed's stand-in if none is installed.
# timeout: 200

load helpers
load containers
load secrets

setup() {
    write_container_job apptainer 1 1
    echo "# $(as_user apptainer --version)" >&3
}

@test "every rank is in the image, with the job's variables and mounts, without the home" {
    local commands=(
        'cat /etc/os-release; echo "rank $DLRUN_RANK of $DLRUN_WORLD_SIZE is $SLURM_PROCID";'
        'printf "<%s>\n" "$IN_BOTH" "$ONLY_IMAGE" "$LINES_OF_TEXT" "$QUOTED" "$LD_LIBRARY_PATH";'
        'pwd; cat /mnt/file; touch /mnt/new || echo ro; touch /rw/new && echo rw;'
        'touch /new || echo root-ro;'
        'test -d "/odd ä" && echo odd-there; id -u;'
        "ls $DLRUN_TESTBED_HOME/canary $dir/job.yaml 2>/dev/null || echo no-home"
    )
    run inside "${commands[*]}" \
        --set resources.nodes=2 --set resources.tasks_per_node=2 --set container.workdir=/etc \
        --set "container.mounts=['$dir/data:/mnt:ro', '$dir/data:/rw', '$dir/odd ä:/odd ä']" \
        --set environment.vars.IN_BOTH=job \
        --set 'environment.vars.LINES_OF_TEXT="one\nEVIL=1 {two}"' \
        --set "environment.vars.QUOTED=\"it's \\\"q\\\"\"" \
        --set environment.vars.LD_LIBRARY_PATH=/job/lib
    echo "$output"
    [ "$status" -eq 0 ]
    has_lines ID=dlrun-test "rank 0 of 4 is 0" '<job>' '<image>' '<one' 'EVIL=1 {two}>' \
        "<it's \"q\">" '</job/lib>' /etc from-data ro rw root-ro no-home \
        odd-there "$(id -u "$DLRUN_TESTBED_USER")"
    [[ $output != *canary* && $output != *job.yaml* ]]
    output=$(dl logs last)
    [ "$(grep -c '^\(.*: \)\?ID=dlrun-test' <<<"$output")" -eq 4 ]
    for rank in 1 2 3; do [[ $output == *"rank $rank of 4 is $rank"* ]]; done
}

@test "writable, mount_home, remap_root and entrypoint take effect, and GPU jobs get the driver" {
    run inside 'touch /new && ls /new; ls ~/canary; id -u' --set container.writable=true \
        --set container.mount_home=true --set container.remap_root=true \
        --set container.entrypoint=true --set resources.gpus_per_node=1
    echo "$output"
    [ "$status" -eq 0 ]
    has_lines /new /root/canary 0
    [[ $(cat "$dir"/runs/boxed-*/slurm-*.out) == *"entered by the runscript"* ]]
    [[ $(dl logs last) == *"nv files"* || -e /dev/nvidiactl ]]
}

@test "an MPI program of 2 nodes x 2 ranks runs in the container, with the image's libraries" {
    run_mpi_chain_on_two_nodes
}

@test "an image that cannot be opened fails the job with apptainer's message and code" {
    echo nonsense >"$dir/bad.sif"
    chmod a+r "$dir/bad.sif"
    run dl submit job.yaml --watch --set "container.image=$dir/bad.sif"
    echo "$output"
    [ "$status" -eq 5 ]
    [[ $output == *"could not open image $dir/bad.sif"* ]]
    [ "$(dl status last --json | jq -r .state)" = failed ]
    [ "$(dl status last --json | jq -r .code)" = 255 ]
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
