#!/usr/bin/env bats
# A new user on a cluster without a site file runs the README's commands as they are printed there.
# These tests have a testbed of their own, because dlrun has a site file for the testbed that the
# other tests share.

setup_file() {
    export DLRUN_TESTBED_DIR=$DLRUN_TESTBED_DIR.newcomer
    load helpers
    "$testbed/down" # A test run that was killed may have left a testbed.
    "$BATS_TEST_DIRNAME/fixture" up --conf ClusterName=alpine
}

teardown_file() {
    load helpers
    "$testbed/down"
}

setup() {
    load helpers
    home=$(getent passwd "$DLRUN_TESTBED_USER" | cut -d: -f6)
    site_folder=$home/.config/dlrun/sites
    rm -rf "$home/.config" "$home"/exp.yaml
}

dl() { as_user dlrun "$@"; }
save_drafted_site_file() {
    as_user bash -c 'mkdir -p ~/.config/dlrun/sites &&
        dlrun doctor --site-file >~/.config/dlrun/sites/alpine.yaml'
}

# Prints the commands of the README's section about unknown clusters, without the prompts.
readme_commands() {
    sed -n '/^## A cluster that dlrun does not know/,/^## What/s/^\$ //p' \
        "$DLRUN_SOURCE_DIR/README.md"
}

@test "the README's commands, in their order, end with a completed job of four ranks" {
    commands=$(readme_commands)
    [ "$(grep -c '^dlrun' <<<"$commands")" -ge 6 ]
    run as_user bash -ec "$commands" </dev/null
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"no site file lists this cluster"* ]]
    [[ $output == *"alpine  (here)"* ]]
    [[ $output == *"exp.yaml: valid"* &&
        $output == *"site      alpine ("*"/.config/dlrun/sites/alpine.yaml)"* ]]
    for rank in 0 1 2 3; do [[ $output == *"rank $rank of 4 on n"* ]]; done
    [[ $output == *completed* ]]
    [ "$(dl status last --json | jq -r .state)" = completed ]
}

@test "the drafted site file describes the cluster, and its limits are enforced" {
    save_drafted_site_file
    run dl site show alpine --json
    [ "$status" -eq 0 ]
    [ "$(jq -c '[.here, .valid, .clusters[0], .mpi, .default_partition, .max_gpus_per_node]' \
        <<<"$output")" = '[true,true,"alpine","pmix","batch",4]' ]
    [ "$(jq -c '.partitions[] | select(.name == "batch") |
        [.gpus_per_node, .gpu_types[0], .cpus_per_node, .mem_per_node_mib, .max_time_seconds]' \
        <<<"$output")" = '[4,"pretend",64,256000,86400]' ]
    dl init --yes -o exp.yaml
    run dl check exp.yaml --set resources.gpus_per_node=8
    [ "$status" -eq 2 ]
    [[ $output == *"resources.gpus_per_node is 8, but site 'alpine' has at most 4 GPUs per node"* ]]
    run dl check exp.yaml --set resources.time=2d --set resources.partition=preemt
    [[ $output == *"site 'alpine' knows no partition 'preemt'; did you mean 'preempt'?"* ]]
}

@test "doctor reports what the cluster has and lacks, as text and as JSON" {
    run dl doctor
    [ "$status" -eq 0 ]
    [[ $output == *"cluster alpine, Slurm "* && $output == *"srun --mpi=pmix"* &&
        $output == *"up to 4 per node: pretend"* ]]
    # A stand-in of a container runtime prints its version as a line of several words. dlrun shows
    # only the number.
    [[ $output != *"testbed);"* ]]
    save_drafted_site_file
    run dl doctor
    [[ $output == *"site      alpine: specs without \`site\` use it"* ]]
    run dl doctor --json
    [ "$(jq -c '[.cluster, .site, (.partitions | length), .partitions[0].usable_nodes]' \
        <<<"$output")" = '["alpine","alpine",3,4]' ]
    [ "$(jq -r .site_file <<<"$output")" = "$(cat "$site_folder/alpine.yaml")" ]
}

@test "doctor exits with 4 within 50 s if the controller is down, and with 6 without Slurm" {
    "$testbed/fault" kill slurmctld
    run timeout 50 "$testbed/as_user" dlrun doctor
    "$testbed/up" --again >/dev/null
    [ "$status" -eq 4 ]
    run as_user env PATH="$DLRUN_TESTBED_PREFIX/bin" dlrun doctor
    [ "$status" -eq 6 ]
    [[ $output == *"there is no Slurm here"* ]]
}

@test "check accepts the spec that init writes for a site, for every site" {
    sites=$(dl site list --json | jq -r '.[].name')
    [ "$(wc -l <<<"$sites")" -ge 7 ]
    for site in $sites; do
        # The testbed's Slurm lacks the site's partitions. This PATH has no sbatch, so that check
        # does not ask Slurm.
        run as_user env PATH="$DLRUN_TESTBED_PREFIX/bin" /bin/bash \
            -o pipefail -c 'dlrun init --site "$1" | dlrun check -' - "$site"
        echo "$site: $output"
        [ "$status" -eq 0 ]
        [[ $output == *"<stdin>: valid"* && $output != *warning* ]]
    done
}

@test "init overwrites a file only with --force, and submit reads a spec from standard input" {
    dl init --yes -o exp.yaml --name first
    run dl init --yes -o exp.yaml --name second
    [ "$status" -eq 2 ]
    [[ $output == *"exists"* ]]
    grep -q 'name: first' "$home/exp.yaml"
    dl init --yes -o exp.yaml --name second --force
    grep -q 'name: second' "$home/exp.yaml"
    run as_user bash -o pipefail -c '
        dlrun init --yes --name piped --gpus 0 --tasks 2 --time 5m -- hostname |
            dlrun submit - --watch'
    [ "$status" -eq 0 ]
    [[ $output == *completed* ]]
}
