#!/usr/bin/env bats
# track.tensorboard: an event file of a real run, read by an independent decoder. track.wandb: the
# variables of the program.
# timeout: 180

load helpers

setup() { dir=$(fresh_dir); }

path() { dl status last --json | jq -r .path; }
scalars() { # scalars TAG: prints "STEP VALUE" for each value of the tag in all files
    "$DLRUN_SOURCE_DIR/tests/tensorboard_reader.py" "$(path)"/tensorboard/events.out.tfevents.* |
        jq -r --arg tag "$1" 'select(.scalars[$tag] != null) | "\(.step) \(.scalars[$tag])"'
}

@test "any program's reports are in the event files, across a restart of the run" {
    as_user tee "$dir/t.yaml" >/dev/null <<'YAML'
name: t
resources: {nodes: 2, tasks_per_node: 1, time: 5m}
launch:
  command:
    - bash
    - -c
    - |
      [[ $DLRUN_RANK == 0 ]] || { sleep 8; exit 0; }
      say() { echo "$1" >"$DLRUN_PROGRESS"; sleep 2; }
      if [[ $DLRUN_ATTEMPT == 0 ]]; then
          say '{"step": 1, "loss": 0.5}'
          say '{"step": 2, "loss": 4.5, "mine": 7.5}'
          exit 1
      fi
      say '{"step": 2, "loss": 0.25}'
      say '{"final": true, "test_accuracy": 0.75}'
retry: {max: 1, on: [failure]}
track: {tensorboard: true}
YAML
    dl submit t.yaml
    dl wait last
    [ "$(find "$(path)/tensorboard" -name 'events.out.tfevents.*' | wc -l)" -eq 2 ]
    [ "$(scalars loss | sort -u)" = $'1 0.5\n2 0.25\n2 4.5' ]
    [ "$(scalars mine)" = "2 7.5" ]
    [ "$(scalars test_accuracy)" = "2 0.75" ]
    # This event makes TensorBoard drop the first attempt's values from step 2 on.
    [ "$("$DLRUN_SOURCE_DIR/tests/tensorboard_reader.py" "$(path)"/tensorboard/*attempt-1 |
        jq -r 'select(.session) | "\(.session) \(.step)"')" = "start 2" ]
}

# event_files_equal_metrics TAG...: checks that the event files have exactly one value for each
# number of metrics.jsonl, with the same step, the same time and, as float32, the same number. The
# numbers `step` and `attempt` of a line need no value. The event files may have no other values,
# except those whose tags start with "system/". Each TAG must have a value.
event_files_equal_metrics() {
    "$DLRUN_SOURCE_DIR/tests/tensorboard_reader.py" "$(path)"/tensorboard/events.out.tfevents.* |
        python3 -c '
import collections, datetime, json, struct, sys

def float32(number):
    return struct.unpack("<f", struct.pack("<f", number))[0]

metrics, events = [], []
for line in map(json.loads, open(sys.argv[1])):
    time = datetime.datetime.strptime(line["time"], "%Y-%m-%dT%H:%M:%S.%fZ")
    time = time.replace(tzinfo=datetime.timezone.utc).timestamp()
    metrics += [(tag, line["step"], round(time, 3), float32(value)) for tag, value in line.items()
                if isinstance(value, (int, float)) and tag not in ("step", "attempt")]
for event in map(json.loads, sys.stdin):
    events += [(tag, event["step"], round(event["wall_time"], 3), value)
               for tag, value in event.get("scalars", {}).items()
               if not tag.startswith("system/")]
missing = collections.Counter(metrics) - collections.Counter(events)
extra = collections.Counter(events) - collections.Counter(metrics)
if missing or extra:
    sys.exit(f"not in the event files: {list(missing)[:9]}; only there: {list(extra)[:9]}")
for tag in sys.argv[2:]:
    if not any(entry[0] == tag for entry in events):
        sys.exit(f"no {tag}")
' "$(path)/metrics.jsonl" "$@"
}

@test "the event files of a short run of the trainer have each value of metrics.jsonl once" {
    as_user tee "$dir/d.yaml" >/dev/null <<'YAML'
name: d
resources: {time: 5m}
train:
  data: {dataset: digits, train_samples: 4096}
  model: mlp
  hidden: [64]
  batch: 16
  epochs: 40
track: {tensorboard: true}
YAML
    dl run d.yaml
    event_files_equal_metrics loss accuracy samples_per_s test_loss test_accuracy
    [ "$(scalars test_accuracy | wc -l)" -eq 40 ]
    [ -z "$(scalars checkpoint)" ]
}

@test "the event files of a restarted run have the values and learning rates of both attempts" {
    as_user tee "$dir/r.yaml" >/dev/null <<'YAML'
name: r
resources: {nodes: 1, tasks_per_node: 1, time: 5m}
train:
  data: {dataset: digits, train_samples: 8192}
  model: mlp
  hidden: [256]
  batch: 8
  epochs: 100000
checkpoint: {every: 100 steps}
retry: {max: 1, on: [failure]}
track: {tensorboard: true}
YAML
    dl submit r.yaml
    run_path=$(path)
    kill_trainer() {
        local pid
        for pid in $(pgrep -x dlrun-trainer); do
            tr '\0' '\n' <"/proc/$pid/environ" 2>/dev/null |
                grep -Fxq "DLRUN_RUN=$run_path" || continue
            kill -KILL "$pid"
        done
    }
    # has_rate ATTEMPT: succeeds once this attempt has written a line with the learning rate.
    has_rate() { grep -q "\"attempt\":$1,.*\"lr\"" "$run_path/metrics.jsonl"; }
    wait_until 60 has_rate 0
    kill_trainer
    wait_until 60 has_rate 1
    kill_trainer
    run ! dl wait last
    event_files_equal_metrics loss lr
}

@test "wandb's variables have the same run id and the run's directory in all attempts" {
    as_user tee "$dir/w.yaml" >/dev/null <<'YAML'
name: w
resources: {time: 5m}
launch:
  command:
    - bash
    - -c
    - |
      echo "id $WANDB_RUN_ID $WANDB_RESUME $WANDB_PROJECT $WANDB_MODE $WANDB_DIR"
      [[ $DLRUN_ATTEMPT == 1 ]]
retry: {max: 1, on: [failure]}
track: {wandb: {project: "a {b}", mode: offline}}
YAML
    dl run w.yaml
    run_path=$(path)
    [ "$(cat "$run_path"/logs/attempt-[01]/rank-0000.log | grep -c '^id ')" -eq 2 ]
    [ "$(cat "$run_path"/logs/attempt-[01]/rank-0000.log | grep '^id ' | sort -u)" = \
        "id $(basename "$run_path") allow a {b} offline $run_path" ]
}
