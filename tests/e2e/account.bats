#!/usr/bin/env bats
# `dlrun check` prints the hours that an account has left. The file has a testbed of its own, with
# accounting and with the priority plugin that counts the use of accounts.

load helpers

setup_file() {
    local separate_dir=$DLRUN_TESTBED_DIR.account
    forget_testbed
    export DLRUN_TESTBED_DIR=$separate_dir
    "$testbed/down" # A test run that was killed may have left a testbed.
    "$BATS_TEST_DIRNAME/fixture" up --nodes 1 --accounting --conf PriorityType=priority/multifactor
    load_testbed
    dir=$(fresh_dir)
    export dir
    as_user tee "$dir/exp.yaml" >/dev/null <<YAML
name: exp
resources: {nodes: 1, tasks_per_node: 1, gpus_per_node: 2, time: 10h}
launch: {command: [hostname]}
YAML
}

teardown_file() {
    "$testbed/down"
}

check_prints() { [[ $(dl check exp.yaml 2>&1) == *"$1"* ]]; }

@test "check prints the hours that the account has left, and warns if the job may use more" {
    wait_until 30 check_prints "account   testers, without a limit on its hours"
    sacctmgr -i modify account testers set GrpTRESMins=gres/gpu=60000
    wait_until 30 check_prints "account   testers: 1000 of 1000 GPU-hours are left"
    [ "$(dl check exp.yaml --json | jq -c '.account | [.name, .limits[0].left_hours]')" \
        = '["testers",1000]' ]
    dl check exp.yaml --json | has_fields_of check
    sacctmgr -i modify account testers set GrpTRESMins=gres/gpu=600
    wait_until 30 check_prints "the job may use 20 GPU-hours, and the account testers has 10 left"
}
