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

@test "any program's reports are in the event file, over a restart of the run" {
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
    # TensorBoard forgets step 2 of the first attempt.
    [ "$("$DLRUN_SOURCE_DIR/tests/tensorboard_reader.py" "$(path)"/tensorboard/*attempt-1 |
        jq -r 'select(.session) | "\(.session) \(.step)"')" = "start 2" ]
}

@test "the trainer's run has loss, accuracy, learning rate and throughput" {
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
    for tag in loss accuracy lr samples_per_s test_accuracy; do
        [ -n "$(scalars "$tag")" ] || { echo "no $tag" && false; }
    done
}

@test "wandb's variables name one run for all attempts, in the run's own directory" {
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
