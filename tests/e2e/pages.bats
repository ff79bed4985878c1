#!/usr/bin/env bats
# The commands of the pages that need Slurm, as a reader would type them. page_commands.py writes
# the files of a page and its commands to a folder. The test copies them to a fresh directory, which
# is also the reader's home directory.
# timeout: 600

load helpers

setup() {
    dir=$(fresh_dir)
    page_commands=$DLRUN_SOURCE_DIR/tests/docs/page_commands.py
}

# run_commands_of PAGE: runs the commands of the page as the testbed's user
run_commands_of() {
    local page_folder=$BATS_TEST_TMPDIR/page
    python3 "$page_commands" prepare "$1" "$page_folder"
    tar -C "$page_folder" -c . | as_user tar -C "$dir" -x --no-same-owner
    run as_user env --chdir="$dir" HOME="$dir" bash commands.sh
    echo "$output"
    [ "$status" -eq 0 ]
    # At least one command was run.
    [[ $output == "ok "* ]]
}

@test "each page that needs Slurm has a test in this file" {
    run python3 "$page_commands" slurm
    [ "$status" -eq 0 ]
    for page in $output; do grep -q "run_commands_of $page\$" "$BATS_TEST_FILENAME"; done
}

@test "the commands of README.md exit as the page says" {
    run_commands_of README.md
}

@test "the commands of the tutorial of the first job exit as the page says" {
    run_commands_of docs/tutorial/first-job.md
}

@test "the commands of the page about job scripts exit as the page says" {
    run_commands_of docs/job-scripts.md
}

@test "the commands of the page about MPI and mpi4py exit as the page says" {
    run_commands_of docs/mpi.md
}

@test "the commands of the page about PyTorch exit as the page says" {
    run_commands_of docs/pytorch.md
}
