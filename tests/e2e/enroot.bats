#!/usr/bin/env bats
# Jobs in containers without pyxis, with the installed enroot or the testbed's stand-in for enroot.
# timeout: 300

load helpers
load containers
load secrets

setup() { write_container_job enroot 2 2; }

containers_of() { as_user_on_node "$1" enroot list; }
no_container_is_left() {
    local node
    for node in n1 n2; do ! containers_of "$node" | grep -q ^dlrun- || return 1; done
}

@test "ranks on two nodes see the image and Slurm's variables, and leave no container" {
    # The job has GPUs, to show that the step that holds the containers takes none of them.
    # shellcheck disable=SC2016 # not expanded by the test
    local program='cat /etc/os-release; echo rank $DLRUN_RANK of $DLRUN_WORLD_SIZE is $SLURM_PROCID'
    run dl submit job.yaml --watch --set resources.gpus_per_node=2 \
        --set "launch.command=[sh, -c, \"$program\"]"
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(dl logs last | grep -c '^ID=dlrun-test')" -eq 4 ]
    for rank in 0 1 2 3; do [[ $output == *"rank $rank of 4 is $rank"* ]]; done
    wait_until 30 no_container_is_left
}

@test "an MPI program of 2 nodes x 2 ranks runs in the container, with the image's libraries" {
    run_mpi_chain_on_two_nodes
}

@test "variables reach the ranks byte for byte, even with newlines, and override the image's" {
    # shellcheck disable=SC2016 # not expanded by the test
    local names='"$IN_BOTH" "$ONLY_IMAGE" "$LINES_OF_TEXT" "$QUOTED" "$EVIL"'
    run inside "printf \"<%s><%s><%s><%s><%s>\\n\" $names" \
        --set environment.vars.IN_BOTH=job \
        --set 'environment.vars.LINES_OF_TEXT="one\nEVIL=1 {two}"' \
        --set "environment.vars.QUOTED='\"q\"'"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *$'<job><image><one\nEVIL=1 {two}><"q"><>'* ]]
}

@test "mounts, workdir, writable, mount_home and remap_root take effect" {
    local words='pwd; cat /mnt/file; touch /mnt/new || echo ro; touch /new || echo root-ro;'
    words+=" ls $DLRUN_TESTBED_HOME/canary || echo no-home;"
    words+=" test -d '/odd ä' && echo odd-there; id -u"
    run inside "$words" \
        --set "container.mounts=['$dir/data:/mnt:ro', '$dir/odd ä:/odd ä']" \
        --set container.workdir=/tmp
    echo "$output"
    [ "$status" -eq 0 ]
    has_lines /tmp from-data ro root-ro no-home odd-there "$(id -u "$DLRUN_TESTBED_USER")"
    run inside 'touch /new && ls /new; ls ~/canary; id -u' --set container.writable=true \
        --set container.mount_home=true --set container.remap_root=true
    echo "$output"
    has_lines /new /root/canary 0
}

has_started() { [[ $(dl logs last) == *waiting* ]]; }
# start_endless_job: submits a job that stays in its containers until Slurm ends the job; waits
# until the ranks have started
start_endless_job() {
    dl submit job.yaml \
        --set "launch.command=[sh, -c, 'trap : TERM; echo waiting; while :; do sleep 0.2; done']"
    wait_until 60 has_started
    [ -n "$(containers_of n1)" ]
}

@test "a cancelled job leaves no container" {
    start_endless_job
    dl cancel last
    wait_until 60 no_container_is_left
}

@test "a job whose lead is killed leaves no container" {
    start_endless_job
    job=$(dl status last --json | jq -r .job)
    lead=$(pgrep -u "$DLRUN_TESTBED_USER" -f 'dlrun-agent lead' | while read -r pid; do
        ! tr '\0' '\n' <"/proc/$pid/environ" | grep -qx "SLURM_JOB_ID=$job" || echo "$pid"; done |
            head -n 1)
    kill -9 "$lead"
    wait_until 60 no_container_is_left
}

@test "a job removes containers that earlier jobs left on its node, but not a running job's" {
    as_user_on_node n1 enroot create --force --name dlrun-999999-n1 "$images/tiny.sqsh"
    as_user_on_node n1 enroot create --force --name mine "$images/tiny.sqsh"
    start_endless_job
    first=$(containers_of n1 | grep '^dlrun-')
    [[ $first != *999999* ]]
    run inside 'echo second' --set resources.nodes=1 --set resources.nodelist=n1
    [ "$status" -eq 0 ]
    containers_of n1 | grep -Fx "$first"
    containers_of n1 | grep -Fx mine
    as_user_on_node n1 enroot remove --force mine
}

@test "a named container is created once on a node, and kept" {
    run inside 'echo kept >/note' --set container.name=keep-e --set container.writable=true \
        --set resources.nodes=1 --set resources.nodelist=n3
    echo "$output"
    [ "$status" -eq 0 ]
    run inside 'cat /note' --set container.name=keep-e --set resources.nodes=1 \
        --set resources.nodelist=n3
    [[ $output == *kept* ]]
    as_user_on_node n3 enroot remove --force keep-e
}

@test "an image that cannot be unpacked ends the job before the ranks start, with a message" {
    echo nonsense >"$dir/bad.sqsh"
    chmod a+r "$dir/bad.sqsh"
    run dl submit job.yaml --watch --set "container.image=$dir/bad.sqsh"
    echo "$output"
    [ "$status" -ne 0 ]
    [[ $(cat "$dir"/runs/boxed-*/slurm-*.out) \
        == *"dlrun: the container could not be made: failed on n"* ]]
    wait_until 30 no_container_is_left
}

@test "interactive enters the container on the first node, and removes it" {
    run dl interactive job.yaml --set environment.vars.IN_BOTH=job \
        -- sh -c 'cat /etc/os-release; echo "$IN_BOTH"; exit 3'
    echo "$output"
    [ "$status" -eq 3 ]
    [[ $output == *ID=dlrun-test*job* ]]
    wait_until 30 no_container_is_left
}

@test "secrets reach only the program in the container, also in an interactive session" {
    check_secrets_in_container
}
