#!/usr/bin/env bats
# `retry.grow`: a run that runs out of memory is queued again with more memory. The testbed does not
# limit memory, so the tests replace srun by a script that reports that the rank ran out of memory.
# timeout: 300

load helpers

setup() {
    dir=$(fresh_dir)
    as_user mkdir "$dir/bin"
    as_user tee "$dir/bin/srun" >/dev/null <<SH
#!/bin/bash
"$slurm_bin/srun" "\$@"
code=\$?
((code == 0)) || echo "srun: error: n1: task 0: Out Of Memory" >&2
exit "\$code"
SH
    as_user chmod +x "$dir/bin/srun"
}

# write_spec GROW: writes exp.yaml, whose retry.grow is GROW. The program needs more than 2500 MiB.
write_spec() {
    as_user tee "$dir/exp.yaml" >/dev/null <<YAML
name: hungry
resources: {nodes: 1, tasks_per_node: 1, mem: 1000M, time: 5m}
environment:
  vars: {PATH: "$dir/bin:$slurm_bin:/usr/bin:/bin"}
launch:
  preset: plain
  command:
    - bash
    - -c
    - |
      memory=\$(scontrol show job \$SLURM_JOB_ID | sed -n 's/.*MinMemoryNode=\([0-9]*\)M.*/\1/p')
      echo "attempt \$DLRUN_ATTEMPT has \$memory MiB"
      ((memory > 2500)) || kill -KILL \$\$
retry: {max: 5, on: [oom], grow: $1}
YAML
}

json() { dl status last --json; }
log() { dl logs last; }

@test "the memory doubles each time the run runs out of it, up to the limit" {
    write_spec '{mem: 2, max: 3000M}'
    dl submit exp.yaml
    run dl wait last
    echo "$output"
    log
    [ "$status" -eq 0 ]
    [[ $(log) == *"attempt 0 has 1000 MiB"*"attempt 1 has 2000 MiB"*"attempt 2 has 3000 MiB"* ]]
    [[ $(json | jq -r '[.restarts[].cause] | join(" ")') == "oom oom" ]]
    jq -e 'select(.event == "restarting") | .memory_mib' "$(json | jq -r .path)/events.jsonl" |
        tr '\n' ' ' | grep -qx '2000 3000 '
}

@test "a run whose memory has reached the limit ends, and its job is not queued again" {
    write_spec '{mem: 1.5, max: 1200M}'
    dl submit exp.yaml
    run dl wait last
    echo "$output"
    [ "$status" -eq 5 ]
    [[ $(dl status last) == *"memory is 1200 MiB already, and retry.grow.max allows 1200 MiB"* ]]
    no_jobs
}
