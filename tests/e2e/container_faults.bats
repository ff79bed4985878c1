#!/usr/bin/env bats
# Problems that the real pyxis, enroot and NVIDIA's hooks cause. The testbed's stand-ins reproduce
# them.
# timeout: 400

load helpers
load containers

setup() { write_container_job pyxis 1 1; }

set_runtime() { sed -i "s/runtime: .*/runtime: $1/" "$dir/job.yaml"; }
containers_of() { as_user_on_node "$1" env PATH="$PATH" enroot list; }
# Succeeds if the job's container is gone from n1.
is_removed() { # JOB
    local list
    list=$(containers_of n1) && ! grep "^dlrun-$1-" <<<"$list"
}
n1_has_no_container() {
    local list
    list=$(containers_of n1) && ! grep ^dlrun- <<<"$list"
}
n1_has_a_container() { containers_of n1 | grep -q ^dlrun-; }

@test "with the preset mpi, a session, attach and a job without PMIx start in the container" {
    for runtime in pyxis enroot; do
        set_runtime $runtime
        run dl interactive job.yaml --set launch.preset=mpi -- cat /etc/os-release
        echo "$output"
        [[ $status == 0 && $output == *ID=dlrun-test* ]]
        run dl submit job.yaml --watch --set launch.preset=mpi --set launch.mpi=none
        echo "$output"
        [[ $status == 0 && $output == *ID=dlrun-test* ]]
        sed -i 's/preset: plain/preset: mpi/' "$dir/job.yaml"
        check_attach_in_container
        sed -i 's/preset: mpi/preset: plain/' "$dir/job.yaml"
        rm "$dir/data/go" "$dir/data/began"
    done
}

@test "check refuses the mount flag readonly, because enroot ignores it and mounts read-write" {
    run as_user env -u PMIX_MCA_gds srun --mpi=none --container-image="$images/tiny.sqsh" \
        --container-mounts="$dir/data:/d:readonly" touch /d/written
    echo "$output"
    [ -e "$dir/data/written" ]
    run dl check job.yaml --set "container.mounts=['$dir/data:/d:readonly']"
    echo "$output"
    [ "$status" -eq 2 ]
    [[ $output == *"'readonly' is not a mount flag; expected one of ro rw"* ]]
}

@test "container.save: the end of the job saves the image, the end of an attached shell does not" {
    dl submit job.yaml --set "container.save=$dir/saved/out.sqsh" \
        --set "launch.command=[sh, -c, 'until [ -e /data/go ]; do sleep 0.1; done']" \
        --set "container.mounts=['$dir/data:/data']"
    is_running() { [[ $(dl status last --json | jq -r .state) == running ]]; }
    wait_until 60 is_running
    run dl attach last -- true </dev/null
    echo "$output"
    [ "$status" -eq 0 ]
    [ -d "$dir/saved" ] # The job has made this folder.
    [ ! -e "$dir/saved/out.sqsh" ]
    as_user touch "$dir/data/go"
    dl wait last
    wait_until 30 test -s "$dir/saved/out.sqsh"
}

# Starts an interactive session on n1 whose program ignores TERM. Sets job, and sets session to the
# id of dlrun's process. Waits up to 60 s for the start, because the node may still be completing the
# previous job.
start_session() {
    as_user bash -c 'cd "$1" &&
        exec dlrun interactive job.yaml --set resources.nodelist=n1 \
            -- sh -c "trap : TERM; echo started; sleep 300; sleep 300"' \
        - "$dir" </dev/null >"$BATS_TEST_TMPDIR/session" 2>&1 3>&- &
    session=$!
    wait_until 60 grep -q started "$BATS_TEST_TMPDIR/session"
    n1_has_a_container
    job=$(squeue -h -u "$DLRUN_TESTBED_USER" -o %A)
    [[ $job == +([0-9]) ]]
}

@test "enroot: a session's container is removed, whatever ends the session" {
    set_runtime enroot
    for how in cancel limit hangup term kill; do
        echo "$how"
        start_session
        case $how in
        cancel) scancel "$job" ;;
        limit) scontrol update "job=$job" TimeLimit=0:01 ;; # Slurm checks limits every 30 s.
        hangup) pkill -HUP -u "$DLRUN_TESTBED_USER" salloc ;;
        term) pkill -TERM -u "$DLRUN_TESTBED_USER" salloc ;;
        kill) pgrep -u "$DLRUN_TESTBED_USER" -f '^[^ ]*bash [^ ]*/session.sh' | xargs kill -9 ;;
        esac
        wait_until 90 is_removed "$job"
        scancel -f -u "$DLRUN_TESTBED_USER"
        wait "$session" || true
        wait_until 60 no_jobs
    done
}

@test "enroot: a session removes the container that an earlier job left on the node" {
    set_runtime enroot
    as_user_on_node n1 env PATH="$PATH" enroot create --name dlrun-999999-n1 "$images/tiny.sqsh"
    run dl interactive job.yaml --set resources.nodelist=n1 -- cat /etc/os-release
    [ "$status" -eq 0 ]
    wait_until 30 n1_has_no_container
}

@test "enroot: a signal to all processes of the holder's step does not interrupt the removal" {
    # The holder is a process on the node that makes and removes the job's container. With
    # proctrack/linuxproc, Slurm sends the TERM at the end of a job to the holder and to its
    # `enroot remove`. This test sends TERM to `enroot remove` only.
    set_runtime enroot
    as_user mkdir "$dir/bin"
    # shellcheck disable=SC2016 # not expanded by the test
    printf '#!/bin/sh\n[ "$1" != remove ] || { touch "%s"; sleep 2; }\nexec "%s" "$@"\n' \
        "$dir/removing" "$(as_user bash -c 'type -P enroot')" |
        as_user tee "$dir/bin/enroot" >/dev/null
    as_user chmod +x "$dir/bin/enroot"
    local path job kind
    path=$dir/bin:$(as_user printenv PATH)
    for kind in job session; do
        echo "$kind"
        local command=(submit job.yaml --watch)
        [[ $kind == job ]] || command=(interactive job.yaml)
        command+=(--set resources.nodelist=n1 --set "environment.vars.PATH=$path")
        [[ $kind == job ]] || command+=(-- cat /etc/os-release)
        dl "${command[@]}" 3>&- &
        wait_until 60 test -e "$dir/removing"
        pkill -TERM -u "$DLRUN_TESTBED_USER" -f 'enroot remove --force dlrun-'
        job=$(containers_of n1 | sed -n 's/^dlrun-\(.*\)-n1$/\1/p')
        [ -n "$job" ]
        wait "$!"
        wait_until 10 is_removed "$job"
        rm "$dir/removing"
    done
}

@test "enroot: nodes that share the data folder create a named container once" {
    set_runtime enroot
    as_user mkdir "$dir/shared"
    # Unpacking 40 MB takes so long that nodes which did not wait would unpack at the same time.
    head -c 40M /dev/urandom >"$BATS_TEST_TMPDIR/large"
    cp -a "$BATS_FILE_TMPDIR/root" "$BATS_TEST_TMPDIR/root"
    cp "$BATS_TEST_TMPDIR/large" "$BATS_TEST_TMPDIR/root/large"
    make_image "$BATS_TEST_TMPDIR/root" "$dir/large.sqsh"
    for submission in first second; do
        run dl submit job.yaml --watch --set resources.nodes=4 --set container.name=shared \
            --set "container.image=$dir/large.sqsh" \
            --set "environment.vars.ENROOT_DATA_PATH=$dir/shared"
        echo "$submission: $output"
        [ "$status" -eq 0 ]
        [ "$(dl logs last | grep -c '^\(.*: \)\?ID=dlrun-test')" -eq 4 ]
    done
    # Files that a killed job left unfinished are made again.
    as_user rm "$dir/shared/shared/etc/os-release"
    as_user touch "$dir/shared/.dlrun-making-shared"
    run dl submit job.yaml --watch --set container.name=shared \
        --set "environment.vars.ENROOT_DATA_PATH=$dir/shared"
    echo "$output"
    [[ $status == 0 && $output == *ID=dlrun-test* ]]
}

# shellcheck disable=SC2030
@test "the image chooses the parts of NVIDIA's driver, and a job without GPUs gets none" {
    cp -a "$BATS_FILE_TMPDIR/root" "$BATS_TEST_TMPDIR/root"
    printf 'NVIDIA_VISIBLE_DEVICES=all\nNVIDIA_DRIVER_CAPABILITIES=compute,video\n' \
        >>"$BATS_TEST_TMPDIR/root/etc/environment"
    make_image "$BATS_TEST_TMPDIR/root" "$dir/nvidia.sqsh"
    for runtime in pyxis enroot; do
        set_runtime $runtime
        run inside 'cat /.nvidia' --set resources.gpus_per_node=1 \
            --set "container.image=$dir/nvidia.sqsh"
        echo "$output"
        [[ $output == *"--device=all --compute --video "* ]]
        run inside 'cat /.nvidia' --set resources.gpus_per_node=1
        [[ $output == *"--device=all --compute --utility "* ]]
        run inside 'ls /.nvidia || echo none' --set "container.image=$dir/nvidia.sqsh"
        echo "$output"
        [[ $output == *none* ]]
    done
}

# fails_for CAUSE WORDS [ARGUMENTS]: checks that the job fails with this cause, that the status
# contains WORDS from the container runtime's message, and that no restart is tried, although
# retry.max is 3.
# shellcheck disable=SC2031 # run sets output and status in this test, not in another one's subshell
fails_for() {
    local cause=$1 words=$2
    shift 2
    run dl submit job.yaml --watch --set retry.max=3 --set 'retry.on=[failure, node_failure]' "$@"
    echo "$output"
    [ "$status" -eq 5 ] || return 1
    run dl status last
    echo "$output"
    [[ $output == *"$words"* && $output == *"container"* ]] || return 1
    run dl status last --json
    [ "$(jq -c '[.state, .attempt]' <<<"$output")" = '["failed",0]' ] || return 1
    grep -q "\"cause\":\"$cause\"" "$(jq -r .path <<<"$output")/events.jsonl"
}

@test "a corrupt or missing image ends the run with the runtime's message, without a restart" {
    echo nonsense >"$dir/bad.sqsh"
    chmod a+r "$dir/bad.sqsh"
    for runtime in pyxis enroot; do
        set_runtime $runtime
        fails_for image "Invalid image format: $dir/bad.sqsh" --set "container.image=$dir/bad.sqsh"
        fails_for image "No such file or directory: $dir/none.sqsh" \
            --set "container.image=$dir/none.sqsh"
    done
    run dl check job.yaml --set "container.image=$dir/bad.sqsh"
    [[ $output == *"no container can be made of '$dir/bad.sqsh': it is not a squashfs file"* ]]
    set_runtime apptainer
    cp "$dir/bad.sqsh" "$dir/bad.sif"
    fails_for image "could not open image $dir/bad.sif" --set "container.image=$dir/bad.sif"
}

@test "check and the failed run report an image that the user has no permission to read" {
    cp "$images/tiny.sqsh" "$dir/unreadable.sqsh"
    chmod 600 "$dir/unreadable.sqsh" # It belongs to root.
    run dl check job.yaml --set "container.image=$dir/unreadable.sqsh"
    echo "$output"
    [[ $output == *"no container can be made of '$dir/unreadable.sqsh': "*"ermission denied"* ]]
    for runtime in pyxis enroot; do
        set_runtime $runtime
        fails_for image "$dir/unreadable.sqsh" --set "container.image=$dir/unreadable.sqsh"
    done
}

@test "if a container does not start, the run ends with the cause, without a restart" {
    make_imported_root "$BATS_TEST_TMPDIR/root"
    echo 'exit 7' >"$BATS_TEST_TMPDIR/root/etc/rc"
    make_image "$BATS_TEST_TMPDIR/root" "$dir/entry.sqsh"
    fails_for container "container start failed with error code: 7" \
        --set "container.image=$dir/entry.sqsh" --set container.entrypoint=true
    fails_for container "couldn't chdir to /none" --set container.workdir=/none
    set_runtime enroot
    fails_for container "failed to mount: /dev/none" --set "container.mounts=['/dev/none:/none']"
}

@test "a failed save is recorded, and a save of several nodes into one file is refused" {
    as_user mkdir "$dir/unwritable"
    run dl submit job.yaml --watch --set "container.save=$dir/unwritable/out.sqsh" \
        --set "container.mounts=['$dir:$dir']" \
        --set "launch.command=[/bin/busybox, chmod, '500', '$dir/unwritable']"
    echo "$output"
    run dl status last --json
    grep -q 'failed to export container .* to .*/unwritable/out.sqsh' \
        "$(jq -r .path <<<"$output")/events.jsonl"
    as_user chmod 700 "$dir/unwritable"
    run dl check job.yaml --set resources.nodes=2 --set "container.save=$dir/out.sqsh"
    [ "$status" -eq 2 ]
    [[ $output == *"each of the 2 nodes would write"* ]]
}

@test "the image's work directory is used, and its entry point changes no variable of the job" {
    make_imported_root "$BATS_TEST_TMPDIR/root"
    make_image "$BATS_TEST_TMPDIR/root" "$dir/imported.sqsh"
    for runtime in pyxis enroot; do
        set_runtime $runtime
        run inside 'pwd; echo "$IN_BOTH"' --set "container.image=$dir/imported.sqsh" \
            --set resources.tasks_per_node=2
        echo "$output"
        has_lines /work image
        [[ $output != *"the entry point ran"* ]]
        run inside 'pwd; echo "$IN_BOTH"' --set "container.image=$dir/imported.sqsh" \
            --set container.entrypoint=true --set environment.vars.IN_BOTH=job
        echo "$output"
        has_lines /work job
    done
    [[ $(cat "$dir"/runs/boxed-*/slurm-*.out) == *"the entry point ran"* ]]
}

@test "enroot: the log of a job has no statistics of the files that enroot unpacked" {
    set_runtime enroot
    run dl submit job.yaml --watch
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $(cat "$dir"/runs/boxed-*/slurm-*.out) != *inodes* ]]
}
