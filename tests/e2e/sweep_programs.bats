#!/usr/bin/env bats
# Sweeps of the user's own program: parameters, several points in one job, points that end early,
# and a search program that chooses the points.
# timeout: 600

load helpers

setup() { dir=$(fresh_dir); }
teardown() { end_test; }

json() { dl "$@" --json 2>/dev/null; }
# points FILTER [SWEEP]: prints what the jq filter gives for each point, in the order of the points
points() { json sweep "${2:-last}" --sort point | jq -r ".[] | $1"; }
is_state() { [[ $(json status "$1" | jq -r .state) == "$2" ]]; }
write() { as_user tee "$dir/$1" >/dev/null; }

@test "the program gets its parameters, and a sweep without results mentions DLRUN_PROGRESS" {
    write own.yaml <<'YAML'
name: own
resources: {nodes: 1, tasks_per_node: 1, time: 5m}
environment: {vars: {TAG: "<{depth}>"}}
launch: {command: [bash, -c, 'echo "$TAG $1" >>ran', "{{}}", "{lr} {depth}"]}
sweep: {parameters: {lr: [0.10, 1e-3], depth: [4, 8]}}
YAML
    dl submit own.yaml
    wait_until 60 is_state last completed
    [[ $(sort "$dir/ran" | xargs) == "<4> 0.10 4 <4> 1e-3 4 <8> 0.10 8 <8> 1e-3 8" ]]
    [[ $(points '.values | [.lr, .depth] | @csv' | xargs) == "0.1,4 0.1,8 0.001,4 0.001,8" ]]
    run dl sweep last
    [[ $output == *"lr"*"depth"*"no point has reported a result"*"DLRUN_PROGRESS"* ]]
    run dl check own.yaml --set 'sweep.parameters={lr: [1, 2], dpth: [1, 2]}'
    [ "$status" -eq 2 ]
    [[ $output == *"'{depth}' is not a parameter of the sweep; did you mean {dpth}?"* ]]
}

@test "a job runs four points side by side, each with its own GPU, cores, log and result" {
    write packed.yaml <<'YAML'
name: packed
resources: {gpus_per_node: 1, cpus_per_task: 2, time: 5m}
launch:
  command:
    - bash
    - -c
    - |
      touch "began-{x}"
      echo "point {x} gpu $CUDA_VISIBLE_DEVICES ranks $DLRUN_WORLD_SIZE cpus $SLURM_CPUS_PER_TASK"
      until [[ $(ls began-* | wc -l) -ge 4 ]]; do sleep 0.1; done
      echo '{{"final": true, "loss": 0.{x}}}' >"$DLRUN_PROGRESS"
      [[ {x} != 3 ]]
sweep: {parameters: {x: [1, 2, 3, 4, 5]}, pack: 4}
YAML
    dl submit packed.yaml
    wait_until 90 is_state last failed # Point 2 fails. The others do not end because of it.
    [[ $(points .state | xargs) == "completed completed failed completed completed" ]]
    job=$(json status last | jq -r '.jobs | join(" ")')
    [[ $(points .job | xargs) == "${job}_0 ${job}_0 ${job}_0 ${job}_0 ${job}_1" ]]
    [[ $(points .result.loss | xargs) == "0.1 0.2 0.3 0.4 0.5" ]]
    for n in 0 1 2 3 4; do
        log=$(dl logs "last/$n")
        [[ $log == *"point $((n + 1)) gpu "*" ranks 1 cpus 2"* ]]
        ((n == 4)) || grep -o 'gpu [0-9]*' <<<"$log" >>"$BATS_TEST_TMPDIR/gpus"
    done
    [[ $(sort -u "$BATS_TEST_TMPDIR/gpus" | wc -l) == 4 ]]
    run dl cancel last/0
    [[ $output == *"nothing to cancel"* ]]
    # A point that is resubmitted has its own job.
    dl resubmit last/4 --watch
}

@test "a search program chooses the arguments of a torch program, and bad points end early" {
    write train.py <<'PY'
import json, os, sys, time
import torch

lr, width = float(sys.argv[1]), int(sys.argv[2])
torch.manual_seed(0)
inputs = torch.randn(64, 8)
targets = inputs.sum(1, keepdim=True)
model = torch.nn.Sequential(torch.nn.Linear(8, width), torch.nn.Tanh(), torch.nn.Linear(width, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=lr)

def report(**values):
    with open(os.environ["DLRUN_PROGRESS"], "w") as file:
        json.dump(values, file)

deadline = time.monotonic() + 120
for epoch in range(1, 10**9):
    loss = torch.nn.functional.mse_loss(model(inputs), targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if epoch <= 8:
        report(epoch=epoch, loss=loss.item())
        # The agent reads a report once a second. A point is compared only with points that have
        # already reached its epoch. Bad points (with a small lr) therefore sleep longer, so that
        # the others are ahead of them.
        time.sleep(1.2 if lr >= 0.01 else 3)
    elif lr >= 0.01 or time.monotonic() > deadline:
        break
    else:
        time.sleep(0.1)  # A bad point ends only if lead stops it.
report(final=True, loss=loss.item())
PY
    # A small version of TPE, a method of Bayesian search: of 50 random values, the program proposes
    # the one that is nearest to the good results and farthest from the bad ones.
    write search.py <<'PY'
import json, math, random, sys

random.seed(1)
results = []
for line in sys.stdin:
    message = json.loads(line)
    if "start" in message:
        space = message["start"]["parameters"]
        low, high = math.log(space["lr"]["min"]), math.log(space["lr"]["max"])
    elif "ask" in message:
        number = message["ask"]
        if number < 4:
            lr = math.exp(low + (high - low) * (0, 0.8, 0.9, 1)[number])
        else:
            ranked = sorted(results)
            good = [log_lr for loss, log_lr in ranked[:2]]
            bad = [log_lr for loss, log_lr in ranked[2:]]
            tries = [random.uniform(low, high) for _ in range(50)]
            distance = lambda at, others: min(abs(at - other) for other in others)
            lr = math.exp(min(tries, key=lambda at: distance(at, good) - distance(at, bad)))
        lr = min(max(lr, space["lr"]["min"]), space["lr"]["max"])
        print(json.dumps({"point": {"lr": lr, "width": space["width"][0]}}), flush=True)
    else:
        told = message["tell"]
        results.append((told["result"]["loss"], math.log(told["values"]["lr"])))
        print(f"point {told['point']}: {told['state']} {told['stopped_early']}", file=sys.stderr)
PY
    write search.yaml <<'YAML'
name: search
resources: {gpus_per_node: 1, cpus_per_task: 1, time: 5m}
launch: {preset: torch, command: [python3, train.py, "{lr}", "{width}"]}
sweep:
  parameters: {lr: {min: 1e-5, max: 0.1, log: true}, width: [16, 32]}
  ask: [python3, search.py]
  pack: 4
  max_points: 8
  stop_early: {metric: loss, rule: median, after: 5}
YAML
    run dl submit search.yaml
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"point 0: completed True"* && $output == *"searched search-"*": 8 points"* ]]
    [[ $(points .state | sort | uniq -c | xargs) == "8 completed" ]]
    [[ $(points '.detail // ""' | wc -l) == 8 ]]
    run dl sweep last
    [[ $output == *"stopped early: the best loss at epoch "* ]]
    # The program proposed the last four points from the results, at the good end of the range.
    [[ $(points 'select(.point >= 4) | .values.lr > 0.0005' | sort -u) == true ]]
    dl report last
}

@test "invalid answers, silence and the early end of a search program cause clear errors" {
    write search.yaml <<'YAML'
name: wrong
resources: {tasks_per_node: 1, time: 5m}
launch: {command: [sleep, "{x}"]}
sweep: {parameters: {x: {min: 1, max: 900}}, ask: [bash, search.sh], ask_timeout: 2s}
YAML
    # fails_after COMMANDS WORDS: checks that submit prints WORDS and fails if the search program
    # runs the shell COMMANDS after it has read the first message
    fails_after() {
        write search.sh <<<"read -r start; $1"
        run dl submit search.yaml
        [ "$status" -ne 0 ]
        [[ $output == *"$2"* ]]
    }
    fails_after 'read -r ask; echo "Trial 0 started"; sleep 60' \
        "bash answered 'Trial 0 started' (line 1 of its output): it is not a JSON object"
    fails_after 'read -r ask; echo "{\"point\": {\"x\": 1000}}"; sleep 60' \
        "'x': 1000 is not between 1 and 900"
    fails_after 'sleep 60' "bash has not answered for 2 s (sweep.ask_timeout)"
    fails_after 'exit 3' "bash ended with code 3 before the search was over"
    fails_after 'read -r ask; echo "{\"done\": true}"; sleep 60' "bash proposed no point"
    [[ -z $(squeue -h -u "$DLRUN_TESTBED_USER") ]] # No job was queued.
    # The first point completes although the program fails at the second.
    fails_after \
        'read -r ask; echo "{\"point\": {\"x\": 1}}"; read -r told; read -r ask; echo nonsense' \
        "\`dlrun sweep wrong"
    [[ $(points .state) == completed ]]
}

@test "a search goes on after a failed sbatch, ends on Ctrl-C, and --continue continues it" {
    write search.yaml <<'YAML'
name: stubborn
resources: {tasks_per_node: 1, time: 5m}
launch: {command: [sleep, "{x}"]}
sweep: {parameters: {x: {min: 1, max: 900}}, ask: [bash, search.sh], max_parallel: 3}
YAML
    # The program answers the first two questions immediately, and takes minutes for the third.
    write search.sh <<'SH'
points=(1 600) n=0
while read -r line; do
    [[ $line == *'"ask"'* ]] || continue
    ((n < 2)) || { touch thinks && sleep 300; }
    echo "{\"point\": {\"x\": ${points[n++]}}}"
done
SH
    # sbatch refuses the second array once.
    as_user mkdir "$dir/bin"
    as_user bash -c "cat >'$dir/bin/sbatch'" <<SH
#!/bin/bash
if [[ \$* == *array-1* && ! -e $dir/refused ]]; then
    touch $dir/refused
    echo "sbatch: error: Job violates accounting/QOS policy (job submit limit)" >&2
    exit 1
fi
exec $slurm_bin/sbatch "\$@"
SH
    as_user chmod +x "$dir/bin/sbatch"
    as_user env --chdir="$dir" bash -c 'echo $$ >search.pid && PATH=$PWD/bin:$PATH &&
        exec dlrun submit search.yaml >search.out 2>&1' </dev/null 3>&- &
    search=$!
    wait_until 60 test -e "$dir/thinks"
    kill -INT "$(<"$dir/search.pid")"
    code=0
    wait "$search" || code=$?
    cat "$dir/search.out"
    [ "$code" -eq 130 ]
    [ -e "$dir/refused" ]
    grep -q 'job submit limit' "$dir/search.out"
    grep -q 'dlrun submits the point again soon' "$dir/search.out"
    grep -q 'Slurm has all points now' "$dir/search.out"
    grep -q 'interrupted; .*dlrun sweep stubborn' "$dir/search.out"
    # Both points are recorded, and Slurm has them.
    [[ $(points .point | xargs) == "0 1" ]]
    [[ $(points 'select(.point == 1) | .state') =~ ^(pending|running)$ ]]
    wait_until 10 search_program_is_gone
    # A second dlrun continues the search: its program first gets the result of the first point.
    wait_until 60 first_point_is_over
    write search.sh <<'SH'
read -r start
while read -r line; do
    echo "$line" >>heard
    [[ $line == *'"ask"'* ]] && echo '{"done": true}'
done
SH
    as_user env --chdir="$dir" bash -c \
        'exec dlrun submit search.yaml --continue stubborn >continued.out 2>&1' </dev/null 3>&- &
    search=$!
    wait_until 60 grep -q '"ask"' "$dir/heard"
    [[ $(sed -n 1p "$dir/heard") == *'"point":0'*'"state":"completed"'* ]]
    [[ $(sed -n 2p "$dir/heard") == '{"ask":2}' ]]
    run dl submit search.yaml --continue stubborn
    echo "$output"
    [ "$status" -eq 3 ]
    [[ $output == *"another dlrun runs this search"* ]]
    run dl submit search.yaml --continue stubborn --set 'sweep.parameters={y: {min: 1, max: 2}}' \
        --set 'launch.command=[sleep, "{y}"]'
    [ "$status" -eq 2 ]
    [[ $output == *"the keys and sweep.pack must be the same"* ]]
    dl cancel stubborn/1
    wait "$search"
    [[ $(sed -n 3p "$dir/heard") == *'"point":1'*'"state":"cancelled"'* ]]
    grep -q 'searched stubborn-.*: 2 points' "$dir/continued.out"
}
first_point_is_over() { [[ $(points 'select(.point == 0) | .state') == completed ]]; }
search_program_is_gone() { ! pgrep -u "$DLRUN_TESTBED_USER" -f 'bash search.sh'; }
