#!/usr/bin/env bats
# profile: chosen ranks run under a profiler. The profilers are the stand-ins of tests/stand_ins.

load helpers

setup() {
    dir=$(fresh_dir)
    as_user mkdir "$dir/tools"
    for tool in nsys py-spy; do
        as_user ln -s "$(user_source)/tests/stand_ins/$tool" "$dir/tools/"
    done
    as_user tee "$dir/p.yaml" >/dev/null <<'YAML'
name: p
resources: {nodes: 2, tasks_per_node: 2, time: 5m}
launch: {command: [bash, -c, 'sleep 3; echo "rank $DLRUN_RANK"']}
profile: {tool: nsys, ranks: [0, 3], delay: 1, for: 1}
YAML
}
with_tools() {
    as_user env --chdir="$dir" PATH="$dir/tools:$(as_user printenv PATH)" "$@"
}
path() { dl status last --json | jq -r .path; }

@test "the chosen ranks run under nsys or py-spy, and their results are in the run's directory" {
    with_tools dlrun submit p.yaml
    dl wait last
    files=$(cd "$(path)/profile/attempt-0" && echo *)
    [ "$files" = "rank-0000.nsys-rep rank-0003.nsys-rep" ]
    grep -q -- ' --delay=1 --duration=1 --kill=none' "$(path)/profile/attempt-0/rank-0003.nsys-rep"
    [[ $(dl logs --rank 3 last) == *"rank 3"* && $(dl logs --rank 1 last) == *"rank 1"* ]]
    with_tools dlrun submit p.yaml --set profile.tool=py-spy --set 'profile.ranks=[1]'
    dl wait last
    files=$(cd "$(path)/profile/attempt-0" && echo *)
    [ "$files" = "rank-0001.log rank-0001.speedscope.json" ]
    grep -q 'profile of bash -c sleep 3' "$(path)/profile/attempt-0/rank-0001.speedscope.json"
}

@test "if the profiler is not on the PATH, the job fails, and status says so" {
    dl submit p.yaml
    run dl wait last
    [ "$status" -eq 5 ]
    [[ $(dl status last --json | jq -r .detail) == *"profile.tool: nsys is not on the PATH"* ]]
    [ ! -e "$(path)/profile" ]
}
