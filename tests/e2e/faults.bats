#!/usr/bin/env bats
# A part of the fault campaign (tests/faults): real jobs with one fault each, on testbeds of its
# own. CONTRIBUTING.md describes the long run.
# timeout: 420

@test "a run with a fault ends in time, reports the fault, and has an undisturbed run's result" {
    as_root=()
    ((EUID == 0)) || as_root=(sudo)
    run "${as_root[@]}" "$DLRUN_SOURCE_DIR/tests/faults/campaign" \
        --count "${DLRUN_TEST_FAULTS:-40}" --seed 4 --brief \
        --testbeds 3 --jobs 6 --build "$DLRUN_BUILD_DIR" --state "$DLRUN_TESTBED_DIR-faults" \
        --out "$BATS_TEST_TMPDIR/faults.jsonl"
    echo "$output"
    [ "$status" -eq 0 ]
}
