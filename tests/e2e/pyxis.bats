#!/usr/bin/env bats
# Jobs in containers with pyxis: the installed one or the testbed's stand-in.
# timeout: 300

load helpers
load containers
load secrets

setup() { write_container_job pyxis 1 1; }

@test "each rank on each node sees the image's os-release" {
    run dl submit job.yaml --watch --set resources.nodes=2 --set resources.tasks_per_node=2
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(dl logs last | grep -c '^ID=dlrun-test')" -eq 4 ]
}

@test "mounts are at their targets, a mount with ro is read-only, and so is the image" {
    local words='cat /mnt/a/file; touch /mnt/a/new && echo a-written;'
    words+=' touch /mnt/b/new || echo b-refused; touch /new || echo root-refused'
    run inside "$words" \
        --set "container.mounts=['$dir/data:/mnt/a', '$dir/data:/mnt/b:ro+rprivate']"
    echo "$output"
    [ "$status" -eq 0 ]
    has_lines from-data a-written b-refused root-refused
    [ -e "$dir/data/new" ]
}

@test "writable lets the job write into the image's root, and the next job does not see it" {
    run inside 'touch /new && ls /new' --set container.writable=true
    [[ $output == *"/new"* ]]
    run inside 'ls /new || echo gone' --set container.writable=true
    [[ $output == *gone* ]]
}

@test "a folder whose name has quotes and special characters is mounted under that name" {
    as_user mkdir "$dir/ä'b;c#%"
    as_user tee "$dir/ä'b;c#%/file" <<<odd >/dev/null
    run inside "cat \"/mnt/ä'b;c#%/file\"" \
        --set "container.mounts=[{source: \"$dir/ä'b;c#%\", target: \"/mnt/ä'b;c#%\"}]"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *odd* ]]
}

@test "a job's variable overrides the image's, and a variable that only the image has is kept" {
    run inside 'echo "$IN_BOTH/$ONLY_IMAGE/$PLAIN"' --set environment.vars.IN_BOTH=job \
        --set environment.vars.PLAIN="a b"
    echo "$output"
    [[ $output == *"job/image/a b"* ]]
    run inside 'echo "$IN_BOTH"'
    [[ $output == *image* ]]
}

@test "the home directory is mounted only on request" {
    run inside "ls $DLRUN_TESTBED_HOME/canary || echo absent"
    [[ $output == *absent* ]]
    run inside "ls $DLRUN_TESTBED_HOME/canary" --set container.mount_home=true
    [ "$status" -eq 0 ]
    [[ $output == *"$DLRUN_TESTBED_HOME/canary"* ]]
}

@test "the command starts in workdir, and remap_root makes the user root inside" {
    run inside 'pwd; id -u' --set container.workdir=/mnt
    [[ $output == *"/mnt"*"$(id -u "$DLRUN_TESTBED_USER")"* ]]
    run inside 'id -u' --set container.remap_root=true
    [ "${lines[-1]}" = 0 ]
}

@test "a named container is kept for the next job on the node" {
    run inside 'echo kept >/note' --set container.name=keep --set container.writable=true \
        --set resources.nodelist=n1
    [ "$status" -eq 0 ]
    run inside 'cat /note' --set container.name=keep --set resources.nodelist=n1
    echo "$output"
    [[ $output == *kept* ]]
}

@test "save writes the container as an image that the next job runs in" {
    run inside 'echo saved >/note' --set container.writable=true \
        --set "container.save=$dir/out.sqsh"
    wait_until 30 test -s "$dir/out.sqsh"
    wait_until 30 no_jobs
    run inside 'cat /note' --set "container.image=$dir/out.sqsh"
    echo "$output"
    [[ $output == *saved* ]]
}

@test "interactive runs a command in the container, in the job's environment" {
    run dl interactive job.yaml --set environment.vars.IN_BOTH=job \
        -- sh -c 'cat /etc/os-release; echo "$IN_BOTH"'
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *ID=dlrun-test*job* ]]
}

@test "the trainer runs in an image that has the trainer's libraries but not the trainer" {
    cp -a "$BATS_FILE_TMPDIR/root" "$BATS_TEST_TMPDIR/root"
    for file in "$DLRUN_TESTBED_PREFIX"/{bin/dlrun-trainer,lib/dlrun/*gloo*.so}; do
        copy_program "$file" "$BATS_TEST_TMPDIR/root"
        rm "$BATS_TEST_TMPDIR/root/${file##*/}"
    done
    make_image "$BATS_TEST_TMPDIR/root" "$dir/trainer.sqsh"
    for layout in '2 1 gloo' '1 2 shm'; do
        read -r nodes per_node backend <<<"$layout"
        run dl submit job.yaml --watch --set "resources.nodes=$nodes" \
            --set "resources.tasks_per_node=$per_node" --set "container.image=$dir/trainer.sqsh" \
            --set launch.preset=trainer --set launch.command=null --set train.data.dataset=digits \
            --set train.epochs=1
        echo "$output" | tail -n 5
        [ "$status" -eq 0 ]
        [ "$(dl status last --json | jq -r .state)" = completed ]
        [[ $output == *"x 2 ranks; $backend;"* ]]
    done
}

@test "an MPI program of 2 nodes x 2 ranks runs in the container, with the image's libraries" {
    run_mpi_chain_on_two_nodes
}

@test "check reports a missing mount source or image before anything is queued" {
    run dl check job.yaml --set "container.mounts=['$dir/data:/a', '$dir/nope:/b']" \
        --set "container.image=$dir/nope.sqsh"
    echo "$output"
    [[ $output == *"container.mounts[1]: the mount's source '$dir/nope' does not exist here"* ]]
    [[ $output == *"container.image: the image '$dir/nope.sqsh' does not exist here"* ]]
}

@test "attach runs beside the ranks in a container of the same image" {
    check_attach_in_container
}

@test "attach to a named container sees what the ranks have written there" {
    has_written() { [[ $(dl logs last) == *written* ]]; }
    local program="until [ -e $dir/data/go-on ]; do sleep 0.1; done"
    dl submit job.yaml --set container.name=joined --set container.writable=true \
        --set "container.mounts=[$dir/data:$dir/data]" \
        --set "launch.command=[sh, -c, 'echo of-the-rank >/note; echo written; $program']"
    wait_until 60 has_written
    run dl attach last -- cat /note </dev/null
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *of-the-rank* ]]
    as_user touch "$dir/data/go-on"
    dl wait last
}

@test "secrets reach only the program in the container, also in an interactive session" {
    check_secrets_in_container
}

@test "a job in a container restarts in its allocation and from the queue" {
    as_user tee -a "$dir/job.yaml" >/dev/null <<'YAML'
retry: {max: 3, on: [failure, preemption]}
YAML
    # shellcheck disable=SC2016 # not expanded by the test
    local program='. /etc/os-release; echo "attempt $DLRUN_ATTEMPT in $ID";'
    # shellcheck disable=SC2016
    program+=' case $DLRUN_ATTEMPT in 0) exit 3;; 1) sleep 300;; esac'
    dl submit job.yaml --set "container.mounts=['$dir/data:/data']" \
        --set "launch.command=[sh, -c, '$program']"
    has_printed_attempt() { [[ $(dl logs --rank 0 last) == *"attempt $1 in dlrun-test"* ]]; }
    wait_until 60 has_printed_attempt 1
    scontrol requeue "$(dl status last --json | jq -r .job)"
    wait_until 90 has_printed_attempt 2
    dl wait last
    [ "$(dl status last --json | jq -c '[.state, .attempt]')" = '["completed",2]' ]
}
