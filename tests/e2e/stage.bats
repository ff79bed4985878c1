#!/usr/bin/env bats
# stage and outputs: data are copied to each node before the ranks start. Outputs are copied from
# each node into the run, at intervals and at the end of each attempt.
# timeout: 240

load helpers

setup() {
    dir=$(fresh_dir)
    # The name of a folder in /tmp of the nodes. Each test has a folder of its own, because the
    # nodes keep their files.
    folder=stage-$BATS_TEST_NUMBER-$$
    as_user mkdir -p "$dir/set/train"
    as_user bash -c "head -c 300000 /dev/urandom >'$dir/set/train/a.bin'; echo b >'$dir/set/b'"
    as_user tar --create --file "$dir/set.tar" --directory "$dir/set" .
}

# write_spec STAGE OUTPUTS PROGRAM [MORE]: writes s.yaml. STAGE and OUTPUTS are YAML lists.
write_spec() {
    cat >"$dir/s.yaml" <<YAML
name: staged
resources: {nodes: 2, tasks_per_node: 2, cpus_per_task: 1, time: 5m, nodelist: "n[1-2]"}
environment: {vars: {NODE_DIR: /tmp/$folder}, setup_node: mkdir -p /tmp/$folder}
stage: $1
outputs: $2
launch:
  preset: plain
  command: [bash, -c, '$3']
${4-}
YAML
    chown "$DLRUN_TESTBED_USER:" "$dir/s.yaml"
}
path() { dl status last --json | jq -r .path; }
# events KIND FILTER: prints the filter's value for each event of this kind
events() { jq -r "select(.event == \"$1\") | $2" "$(path)/events.jsonl"; }

@test "every rank finds the data on its node, and each node copies them once" {
    write_spec '[{from: ./set, to: $NODE_DIR/set},
                 {from: ./set.tar, to: $NODE_DIR/tar, unpack: true}]' \
        '[]' \
        'cmp $NODE_DIR/set/train/a.bin $NODE_DIR/tar/train/a.bin && cat $NODE_DIR/set/b'
    run dl submit s.yaml --watch
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(events staged .nodes)" = 2 ]
    # Each of the two nodes copies three files: two of the folder, and the archive.
    [ "$(events staged .files)" = 6 ]
    # A second run on the same nodes finds the same data.
    run dl submit s.yaml --watch
    [ "$status" -eq 0 ]
    [ "$(events staged .files)" = 0 ]
}

@test "a second attempt on a node does not copy again" {
    write_spec '[{from: ./set, to: $NODE_DIR/set}]' '[]' 'test $DLRUN_ATTEMPT -gt 0 || exit 3' \
        'retry: {max: 1, on: [failure]}'
    run dl submit s.yaml --watch
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(events staged .files | tr '\n' ' ')" = '4 0 ' ]
}

@test "a missing source is reported before the job is queued, with its line" {
    write_spec '[{from: ./no-such-set, to: $NODE_DIR/set}]' '[]' true
    for command in check submit; do
        run dl "$command" s.yaml
        echo "$output"
        [ "$status" -eq 2 ]
        [[ $output == *"s.yaml:4:9: error: stage[0]: the source '$dir/no-such-set'"* ]]
    done
    no_jobs
}

@test "if a node has no room for the data, an error says so and no program starts" {
    as_user truncate -s 1T "$dir/huge"
    write_spec '[{from: ./huge, to: $NODE_DIR/huge}]' '[]' "touch $dir/started-\$DLRUN_RANK"
    run dl submit s.yaml --watch
    echo "$output"
    [ "$status" -eq 5 ]
    [[ $output \
        == *"cannot stage $dir/huge to \$NODE_DIR/huge: "*"are needed in"*"are free there"* ]]
    [ "$(dl status last --json | jq .code)" -eq 82 ]
    run ! compgen -G "$dir/started-*"
}

@test "while a node copies, status says staging, and a cancel ends the copy" {
    # Another process holds the lock of the destination, as an agent does while it copies.
    write_spec '[{from: ./set, to: $NODE_DIR/set}]' '[]' true
    as_user srun -w 'n[1-2]' -N2 --ntasks-per-node=1 bash -c \
        "mkdir -p /tmp/$folder; exec 9>/tmp/$folder/.set.dlrun-lock; flock 9
         touch $dir/locked-\$SLURM_NODEID; exec sleep 60" 3>&- &
    wait_until 20 test -e "$dir/locked-0" -a -e "$dir/locked-1"
    dl submit s.yaml
    is_staging() { dl status last | grep -q 'staging: 2 nodes copy data'; }
    wait_until 30 is_staging
    dl cancel last
    run dl wait last
    [ "$status" -ne 0 ]
    [ -z "$(events joined .ranks)" ]
}

@test "outputs of both nodes reach the run as whole files after the kill -9 of a rank" {
    write_spec '[]' '[{from: $NODE_DIR/ckpt, to: out}]' \
        "mkdir -p \$NODE_DIR/ckpt; echo step 1 >\$NODE_DIR/ckpt/model-\$DLRUN_RANK;
         echo \$\$ >$dir/pid-\$DLRUN_RANK; sleep 300"
    dl submit s.yaml
    all_have_started() { [ "$(cat "$dir"/pid-* 2>/dev/null | wc -l)" -eq 4 ]; }
    wait_until 30 all_have_started
    kill -9 "$(<"$dir/pid-1")"
    run dl wait last
    [ "$status" -eq 5 ]
    out=$(path)/out
    ls -R "$out"
    [ "$(cat "$out"/node-0/model-{0,1} "$out"/node-1/model-{2,3})" = \
        "$(printf 'step 1\n%.0s' 1 2 3 4)" ]
    [ -z "$(find "$out" -name '*.dlrun-part')" ]
    [ "$(events outputs .files)" = 4 ]
    [[ $(dl status last) == *"rank 1 on n1 was killed by SIGKILL"* ]]
}

@test "dlrun run stages data, and copies outputs at intervals while the program runs" {
    cat >"$dir/here.yaml" <<YAML
name: here
resources: {tasks_per_node: 2, time: 5m}
stage: [{from: ./set, to: \$TMPDIR/set}]
outputs: [{from: \$TMPDIR/ckpt, to: out, every: 10s}]
environment: {vars: {TMPDIR: $dir/local}}
launch:
  preset: plain
  command:
    - bash
    - -c
    - 'cat \$TMPDIR/set/b; mkdir -p \$TMPDIR/ckpt; echo \$DLRUN_RANK >\$TMPDIR/ckpt/\$DLRUN_RANK;
      for i in {1..60}; do [[ -s \$DLRUN_RUN/out/1 ]] && exit; sleep 0.5; done; exit 4'
YAML
    as_user mkdir "$dir/local"
    chown "$DLRUN_TESTBED_USER:" "$dir/here.yaml"
    run dl run here.yaml
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(cat "$(path)"/out/0 "$(path)"/out/1)" = "$(printf '0\n1')" ]
}

@test "a large file reaches the nodes through sbcast, and sbcast's copy is not left behind" {
    as_user bash -c "yes dlrun | head -c 68000000 >'$dir/large'"
    write_spec '[{from: ./large, to: $NODE_DIR/large}]' '[]' \
        "cmp \$NODE_DIR/large $dir/large && [[ -z \$(find \$NODE_DIR -name .dlrun-sbcast\*) ]]"
    run as_user env --chdir="$dir" DLRUN_SBCAST_NODES=2 dlrun submit s.yaml --watch
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"staging: sbcast sends $dir/large to all nodes"* ]]
    [[ $output != *"has failed, so every node copies the file itself"* ]]
    [ "$(events staged .files)" = 2 ]
}
