#!/usr/bin/env bats
# dlrun builds the environments of environment.uv, pixi and spack once, on the submitting machine,
# before the job is queued. The tests use the user's uv, or the stand-in of tests/stand_ins if the
# user has none. The other tools are always stand-ins. Nothing here uses the network: the
# pyproject.toml below has no dependencies.
# timeout: 240

load helpers

setup() {
    dir=$(fresh_dir)
    as_user mkdir "$dir/tools"
    path_with_tools=$dir/tools:$(as_user printenv PATH)
    for tool in uv pixi spack; do
        [[ $tool == uv ]] && as_user bash -c 'type -P uv' >/dev/null && continue
        as_user ln -s "$(user_source)/tests/stand_ins/$tool" "$dir/tools/"
    done
    as_user tee "$dir/pyproject.toml" >/dev/null <<'TOML'
[project]
name = "x"
version = "1"
requires-python = ">=3.9"
TOML
    as_user tee "$dir/pixi.toml" >/dev/null <<<'[workspace]'
    as_user tee "$dir/spack.yaml" >/dev/null <<<'spack: {specs: []}'
    write_spec uv 'uv: .' VIRTUAL_ENV
    write_spec pixi 'pixi: .' CONDA_PREFIX
    write_spec spack 'spack: ./.' SPACK_ENV
}

# write_spec NAME ENVIRONMENT VARIABLE: writes NAME.yaml, whose ranks wait until the file `go`
# exists and then print the variable
write_spec() {
    as_user tee "$dir/$1.yaml" >/dev/null <<YAML
name: $1
resources: {nodes: 2, tasks_per_node: 1, time: 5m}
environment: {$2, vars: {UV_OFFLINE: 1, UV_PYTHON_DOWNLOADS: never}}
launch: {command: [bash, -c, 'until [[ -e $dir/go ]]; do sleep 0.1; done; echo "\$DLRUN_RANK in \$$3"']}
YAML
}
with_tools() { as_user env --chdir="$dir" PATH="$path_with_tools" "$@"; }
current_environment() { as_user readlink -e "$dir/.dlrun/uv/current"; }
count_environments() { find "$dir/.dlrun/uv" -mindepth 1 -maxdepth 1 -type d | wc -l; }

@test "two simultaneous submissions build uv's environment once, and all ranks use it" {
    as_user touch "$dir/go"
    with_tools dlrun submit uv.yaml >"$BATS_TEST_TMPDIR/one" 2>&1 &
    first=$!
    run with_tools dlrun submit uv.yaml
    echo "$output"
    [ "$status" -eq 0 ]
    wait "$first"
    [ "$(count_environments)" -eq 1 ]
    [ "$(cat "$BATS_TEST_TMPDIR/one" - <<<"$output" | grep -c 'uv builds the environment of')" -eq 1 ]
    dl wait last
    [[ $(dl logs --rank 0 last) == *"0 in $(current_environment)"* ]]
    [[ $(dl logs --rank 1 last) == *"1 in $(current_environment)"* ]]
}

@test "a changed uv.lock leads to a new environment, and a running job keeps the old one" {
    with_tools dlrun submit uv.yaml
    old=$(current_environment)
    is_running() { [[ $(dl status last --json | jq -r .state) == running ]]; }
    wait_until 30 is_running
    as_user sed -i 's/version = "1"/version = "2"/' "$dir/pyproject.toml"
    # uv refuses the outdated lock. dlrun prints uv's message with the line of the key, and queues
    # nothing.
    run with_tools dlrun submit uv.yaml
    echo "$output"
    [ "$status" -eq 2 ]
    [[ $output == *"uv.yaml:3:"*"environment.uv.project: "*"uv.lock"*"needs to be updated"* ]]
    [ "$(squeue -h -u "$DLRUN_TESTBED_USER" | wc -l)" -eq 1 ]
    with_tools env UV_OFFLINE=1 uv lock
    run with_tools dlrun interactive uv.yaml --set resources.nodes=1 -- \
        bash -c 'echo "shell in $VIRTUAL_ENV"' </dev/null
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"shell in $(current_environment)"* ]]
    [ "$(current_environment)" != "$old" ]
    as_user touch "$dir/go"
    dl wait last
    [[ $(dl logs --rank 1 last) == *"1 in $old"* ]]
}

@test "the environments of pixi and spack are installed before queueing, and also by dlrun run" {
    as_user touch "$dir/go"
    run with_tools dlrun run pixi.yaml
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"0 in $dir/.pixi/envs/default"* ]]
    with_tools dlrun submit spack.yaml
    dl wait last
    [[ $(dl logs --rank 1 last) == *"1 in $dir"* ]]
}

@test "check and submit refuse a missing tool with the line of its key, and nothing is queued" {
    for name in pixi spack; do
        for command in check submit; do
            run dl "$command" "$name.yaml"
            echo "$output"
            [ "$status" -eq 2 ]
            [[ $output == *"$name.yaml:3:"*"the program $name is not on the PATH here"* ]]
        done
    done
    run dl check pixi.yaml --set environment.pixi=null --set environment.eessi=1999.01
    [ "$status" -eq 2 ]
    [[ $output == *"environment.eessi: /cvmfs/"*"does not exist here"* ]]
    no_jobs
    [[ ! -e $dir/runs || -z $(ls "$dir/runs") ]]
}

@test "check warns of a program that is not on the PATH, unless environment.setup is given" {
    as_user tee "$dir/absent.yaml" >/dev/null <<'SPEC'
resources: {nodes: 1, time: 1m}
launch: {command: [absent-program, --x]}
SPEC
    run dl check absent.yaml
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"the program 'absent-program' is not on the PATH here"* ]]
    run dl check absent.yaml --set environment.setup='PATH=/opt/x:$PATH'
    [ "$status" -eq 0 ]
    [[ $output != *"is not on the PATH"* ]]
}

@test "resubmit builds a removed environment again" {
    as_user touch "$dir/go"
    with_tools dlrun submit uv.yaml
    dl wait last
    as_user rm -r "$dir/.dlrun/uv"
    with_tools dlrun resubmit last
    dl wait last
    [[ $(dl logs --rank 1 last) == *"1 in $(current_environment)"* ]]
}
