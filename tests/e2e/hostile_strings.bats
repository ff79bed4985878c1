#!/usr/bin/env bats
# Hostile strings in specs; see hostile_strings.py. With DLRUN_TEST_ALL_STRINGS the test puts each
# string into each key.
# timeout: 1500

load helpers

@test "hostile strings in every key are refused or arrive byte for byte, and none is executed" {
    dir=$(fresh_dir)
    install -m 755 "$BATS_TEST_DIRNAME/hostile_strings.py" "$dir"
    cat "$DLRUN_SOURCE_DIR"/launcher/spec/keys/*_keys.h | install -m 644 /dev/stdin "$dir/keys"
    mkdir "$dir/work" && chown "$DLRUN_TESTBED_USER:" "$dir/work"
    run as_user bash -c 'cd "$1/work" && exec "$1/hostile_strings.py" --keys "$1/keys" "${@:2}"' \
        - "$dir" ${DLRUN_TEST_ALL_STRINGS:+--all}
    echo "$output" | tail -n 70
    [ "$status" -eq 0 ]
    [ -z "$(find "$dir" -name 'canary*' -print -quit)" ]
}
