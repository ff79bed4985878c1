# Made by `dlrun completion bash` from the tree of commands and the key table; a test checks this.
# shellcheck shell=bash
_dlrun_offer() { # PREFIX TYPED CANDIDATES
  local IFS=$' \t\n' names name
  read -r -d '' -a names <<<"$3"
  for name in "${names[@]}"; do
    [[ $name != "$2"* || $name == *[![:alnum:]._=-]* ]] || COMPREPLY+=("$1$name")
  done
}
_dlrun_set() {
  local key=$1 word=$2 prefix=$3 words=''
  case $key in
    resources.hint) words='compute_bound memory_bound multithread nomultithread' ;;
    container.runtime) words='auto pyxis enroot apptainer charliecloud none' ;;
    hetjob) words='auto true false' ;;
    train.data.dataset) words='mnist idx cifar10 arrays digits patches' ;;
    train.model) words='mlp cnn resnet18 resnet50 efficientnet-b0' ;;
    train.loss) words='softmax sigmoid' ;;
    train.optimizer.name) words='adam adamw sgd nesterov rmsprop lars lamb novograd lion' ;;
    train.optimizer.state) words='whole sharded' ;;
    train.compression) words='none bf16 fp16' ;;
    train.lr_scaling) words='none linear sqrt' ;;
    train.lr_decay) words='constant linear cosine step polynomial' ;;
    train.shard) words='sample file epoch' ;;
    train.backend) words='auto mpi gloo shm nccl single' ;;
    train.device) words='cpu cuda' ;;
    train.precision) words='float32 bf16' ;;
    retry.on) words='timeout preemption node_failure hang oom failure' ;;
    health.preflight) words='gpu nccl rccl gloo disk clock binding fabric' ;;
    health.idle_gpu) words='warn end' ;;
    profile.tool) words='nsys py-spy perf' ;;
    notify.on) words='started completed failed cancelled restarted hang' ;;
    track.wandb.mode) words='online offline' ;;
    sweep.stop_early.rule) words='median' ;;
    submit.via) words='sbatch slurmrestd' ;;
    resources.exclusive|environment.modules.purge|container.writable|container.mount_home|container.remap_root|container.entrypoint|launch.agent|train.cuda_graphs|checkpoint.resume|retry.exclude_bad_nodes|track.tensorboard|code.snapshot) words='true false' ;;
    site) words=$(dlrun completion --list sites 2>/dev/null) ;;
    launch.preset) words=$(dlrun completion --list presets 2>/dev/null) ;;
    base|resources.output|resources.error|environment.modules.use|environment.conda.name|environment.venv|environment.uv.project|environment.pixi.project|environment.spack|container.image|container.save|download.path|train.data.path|health.known_bad.file|submit.token_file) mapfile -t COMPREPLY < <(compgen -P "$prefix" -f -- "$word"); return ;;
  esac
  compopt +o filenames # the option `filenames` would quote the '='
  _dlrun_offer "$prefix" "$word" "$words"
}
_dlrun() {
  local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} command='' i
  local keys='name= site= base= resources.clusters= resources.partition= resources.account= resources.qos= resources.reservation= resources.nodes= resources.spare_nodes= resources.ntasks= resources.tasks_per_node= resources.cpus_per_task= resources.gpus_per_node= resources.gpus= resources.gpus_per_task= resources.cpus_per_gpu= resources.gres= resources.mem= resources.mem_per_cpu= resources.mem_per_gpu= resources.time= resources.begin= resources.constraint= resources.nodelist= resources.exclude= resources.exclusive= resources.licenses= resources.hint= resources.threads_per_core= resources.distribution= resources.output= resources.error= resources.signal= slurm. environment.modules.purge= environment.modules.use= environment.modules.load= environment.conda.module= environment.conda.name= environment.venv= environment.uv.project= environment.pixi.project= environment.pixi.environment= environment.spack= environment.uenv.images= environment.uenv.views= environment.eessi= environment.vars. environment.secrets= environment.setup= environment.setup_node= container.runtime= container.image= container.mounts= container.workdir= container.writable= container.mount_home= container.remap_root= container.entrypoint= container.name= container.save= launch.preset= launch.command= launch.nproc_per_node= launch.roles.chief= launch.roles.ps= launch.roles.evaluator= launch.mpi= launch.cpu_bind= launch.gpu_bind= launch.agent= launch.srun. components= hetjob= download.path= download.files= stage= outputs= train.data.dataset= train.data.path= train.data.download= train.data.train_samples= train.data.test_samples= train.data.patch_size= train.model= train.hidden= train.layers= train.loss= train.optimizer.name= train.optimizer.momentum= train.optimizer.weight_decay= train.optimizer.beta1= train.optimizer.beta2= train.optimizer.epsilon= train.optimizer.alpha= train.optimizer.trust= train.optimizer.state= train.compression= train.local_steps= train.local_after= train.clip_norm= train.lr= train.lr_scaling= train.lr_decay= train.lr_steps= train.lr_step_factor= train.lr_power= train.warmup_epochs= train.batch= train.micro_batch= train.epochs= train.augment= train.shard= train.seed= train.backend= train.device= train.precision= train.cuda_graphs= train.trace_steps= train.threads= checkpoint.dir= checkpoint.every= checkpoint.keep= checkpoint.resume= checkpoint.signal_before= retry.max= retry.on= retry.exclude_bad_nodes= retry.no_progress= retry.grow.mem= retry.grow.max= retry.chain= health.preflight= health.hang_after= health.idle_gpu_after= health.idle_gpu= health.known_bad.file= health.known_bad.for= profile.tool= profile.ranks= profile.delay= profile.for= notify.on= notify.webhook.secret= notify.webhook.url= notify.command= track.tensorboard= track.mlflow.url= track.mlflow.experiment= track.mlflow.secret= track.wandb.project= track.wandb.entity= track.wandb.mode= after.ok= after.any= after.notok= code.snapshot= sweep.parameters= sweep.points= sweep.random= sweep.seed= sweep.max_parallel= sweep.pack= sweep.ask= sweep.ask_timeout= sweep.max_points= sweep.stop_early.metric= sweep.stop_early.rule= sweep.stop_early.after= submit.via= submit.url= submit.token_file='
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    [[ ${COMP_WORDS[i]} == @(--log-file|--host|-H) ]] && { ((i++)); continue; }
    [[ ${COMP_WORDS[i]} == -* ]] || { command=${COMP_WORDS[i]}; break; }
  done
  if [[ -z $command && $previous == @(--host|-H) ]]; then
    _dlrun_offer '' "$word" "$(dlrun completion --list hosts 2>/dev/null)"
    return
  fi
  if [[ -z $command ]]; then
    _dlrun_offer '' "$word" 'submit render check interactive run ls status top report logs wait cancel rm prune du attach forward ssh-config sweep nodes notify track diff resubmit schema explain man site init doctor container bench completion host pull --help --version --verbose --log-file --host'
    return
  fi
  if [[ $word == '=' && ${COMP_WORDS[COMP_CWORD-2]} == --set ]]; then
    _dlrun_set "$previous" '' ''
    return
  fi
  if ((COMP_CWORD > 3)) && [[ $previous == '=' && ${COMP_WORDS[COMP_CWORD-3]} == --set ]]; then
    _dlrun_set "${COMP_WORDS[COMP_CWORD-2]}" "$word" ''
    return
  fi
  local options='' runs='' verbs='' words='' files=''
  case $command in
    submit) options='-h --help --set --runs --chain --rehearse --watch --in --dry-run --test-only --continue --json -v --verbose --log-file' ;;
    render) options='-h --help --set --runs -o --output --force --point -v --verbose --log-file' ;;
    check) options='-h --help --set --runs --json -v --verbose --log-file' ;;
    interactive) options='-h --help --set --runs --point --dry-run -v --verbose --log-file' ;;
    run) options='-h --help --set --runs --here --dry-run --point --json -v --verbose --log-file' ;;
    ls) options='-h --help -a --all -n --limit --runs --name --state --newer-than --older-than --json -v --verbose --log-file' ;;
    status) options='-h --help --json -v --verbose --log-file' runs=1 ;;
    top) options='-h --help -n --ranks --once --json -v --verbose --log-file' runs=1 ;;
    report) options='-h --help -o --output -v --verbose --log-file' runs=1 ;;
    logs) options='-h --help -f --follow --rank --component --attempt --raw -n --tail -v --verbose --log-file' runs=1 ;;
    wait) options='-h --help --json -v --verbose --log-file' runs=1 ;;
    cancel) options='-h --help -v --verbose --log-file' runs=1 ;;
    rm) options='-h --help -y --yes --dry-run --json -v --verbose --log-file' runs=1 ;;
    prune) options='-h --help --older-than --keep-checkpoints --runs -y --yes --dry-run --json -v --verbose --log-file' ;;
    du) options='-h --help --json -v --verbose --log-file' runs=1 ;;
    attach) options='-h --help --node --dry-run -v --verbose --log-file' runs=1 ;;
    forward) options='-h --help --node --socket --any-user -v --verbose --log-file' runs=1 ;;
    ssh-config) options='-h --help --node --connect -v --verbose --log-file' runs=1 ;;
    sweep) options='-h --help --sort --ascending --descending -n --limit --json -v --verbose --log-file' runs=1 ;;
    nodes) options='-h --help --runs --file --forget --json -v --verbose --log-file' ;;
    notify) options='-h --help --relay --webhooks --json -v --verbose --log-file' runs=1 ;;
    track) options='-h --help -v --verbose --log-file' runs=1 verbs='sync' ;;
    diff) options='-h --help -v --verbose --log-file' runs=1 ;;
    resubmit) options='-h --help --watch --force --json -v --verbose --log-file' runs=1 ;;
    schema) options='-h --help -v --verbose --log-file' ;;
    explain) options='-h --help --set --json --markdown -v --verbose --log-file' words=${keys//[=]/} files=1 words=${words//. / } ;;
    man) options='-h --help -v --verbose --log-file' ;;
    site) options='-h --help --json -v --verbose --log-file' words=$(dlrun completion --list sites 2>/dev/null) verbs='list show' ;;
    init) options='-h --help --site --from --name --nodes --gpus --tasks --cpus --mem --time --partition --account --image --runtime --module --conda --venv --preset -o --output --force -y --yes -v --verbose --log-file' ;;
    doctor) options='-h --help -M --cluster --site-file --json -v --verbose --log-file' ;;
    container) options='-h --help --refresh --json -v --verbose --log-file' verbs='import list' ;;
    bench) options='-h --help --nodes --local --set --runs --backends --ranks --sizes --operation --svg --json -v --verbose --log-file' verbs='collectives scaling' ;;
    completion) options='-h --help --list -v --verbose --log-file' verbs='bash zsh fish' ;;
    host) options='-h --help --json -v --verbose --log-file' words=$(dlrun completion --list hosts 2>/dev/null) verbs='check forget list login' ;;
    pull) options='-h --help --to -v --verbose --log-file' runs=1 ;;
  esac
  for ((i++; i < COMP_CWORD; i++)); do
    [[ " $verbs " == *" ${COMP_WORDS[i]} "* ]] && verbs=''
  done
  case $command:$previous in
    submit:--runs | submit:--log-file | render:--runs | render:-o | render:--output | render:--log-file | check:--runs | check:--log-file | interactive:--runs | interactive:--log-file | run:--runs | run:--log-file | ls:--runs | ls:--log-file | status:--log-file | top:--log-file | report:-o | report:--output | report:--log-file | logs:--log-file | wait:--log-file | cancel:--log-file | rm:--log-file | prune:--runs | prune:--log-file | du:--log-file | attach:--log-file | forward:--log-file | ssh-config:--log-file | sweep:--log-file | nodes:--runs | nodes:--file | nodes:--log-file | notify:--log-file | track:--log-file | diff:--log-file | resubmit:--log-file | schema:--log-file | explain:--log-file | man:--log-file | site:--log-file | init:--from | init:--venv | init:-o | init:--output | init:--log-file | doctor:--log-file | container:--log-file | bench:--runs | bench:--svg | bench:--log-file | completion:--log-file | host:--log-file | pull:--to | pull:--log-file) mapfile -t COMPREPLY < <(compgen -f -- "$word"); return ;;
    submit:--set | render:--set | check:--set | interactive:--set | run:--set | explain:--set | bench:--set)
      if [[ $word == *=* ]]; then
        _dlrun_set "${word%%=*}" "${word#*=}" "${word%%=*}="
      else
        _dlrun_offer '' "$word" "$keys"
        compopt -o nospace +o filenames
      fi
      return ;;
    init:--site)
      _dlrun_offer '' "$word" "$(dlrun completion --list sites 2>/dev/null)"
      return ;;
  esac
  if [[ $word == -* ]]; then
    _dlrun_offer '' "$word" "$options"
  elif [[ -n $verbs ]]; then
    _dlrun_offer '' "$word" "$verbs"
  elif [[ -n $words ]]; then
    [[ -z $files ]] || mapfile -t COMPREPLY < <(compgen -f -- "$word")
    _dlrun_offer '' "$word" "$words"
  elif [[ -n $runs ]]; then
    local state=${XDG_STATE_HOME:-$HOME/.local/state}/dlrun/runs
    words=$(command ls -t "$state" 2>/dev/null | head -n 200)
    _dlrun_offer '' "$word" "last $words"
  else
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
  fi
}
complete -o filenames -F _dlrun dlrun
