#!/usr/bin/env bats
# Hostile strings in the jobs that dlrun submits through a real slurmrestd.
# timeout: 300
# shellcheck disable=SC2030,SC2031 # bats: each test is a subshell

load helpers
load rest

@test "hostile strings through slurmrestd are refused or arrive byte for byte, and none runs" {
    work=$dir/hostile
    as_user mkdir "$work"
    install -m 755 "$BATS_TEST_DIRNAME/hostile_strings.py" "$dir"
    cat "$DLRUN_SOURCE_DIR"/launcher/spec/keys/*_keys.h | install -m 644 /dev/stdin "$dir/keys"
    run as_user env DLRUN_TEST_REST_API="$api_version" bash -c 'cd "$1/hostile" &&
        exec "$1/hostile_strings.py" --keys "$1/keys" --rest "unix:$2" "${@:3}"' \
        - "$dir" "$DLRUN_TESTBED_REST_SOCKET" \
        ${DLRUN_TEST_ALL_STRINGS:+--all}
    echo "$output" | tail -n 70
    [ "$status" -eq 0 ]
    [ -z "$(find "$dir" -name 'canary*' -print -quit)" ]
}
