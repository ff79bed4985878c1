# Made by `dlrun completion fish` from the tree of commands and the key table; a test checks this.
function __dlrun_runs
    set -l state $HOME/.local/state
    set -q XDG_STATE_HOME; and set state $XDG_STATE_HOME
    echo last
    command ls -t $state/dlrun/runs 2>/dev/null
end

function __dlrun_keys
    printf '%s\n' name= site= base= resources.clusters= resources.partition= resources.account= resources.qos= resources.reservation= resources.nodes= resources.spare_nodes= resources.ntasks= resources.tasks_per_node= resources.cpus_per_task= resources.gpus_per_node= resources.gpus= resources.gpus_per_task= resources.cpus_per_gpu= resources.gres= resources.mem= resources.mem_per_cpu= resources.mem_per_gpu= resources.time= resources.begin= resources.constraint= resources.nodelist= resources.exclude= resources.exclusive= resources.licenses= resources.hint= resources.threads_per_core= resources.distribution= resources.output= resources.error= resources.signal= slurm. environment.modules.purge= environment.modules.use= environment.modules.load= environment.conda.module= environment.conda.name= environment.venv= environment.uv.project= environment.pixi.project= environment.pixi.environment= environment.spack= environment.uenv.images= environment.uenv.views= environment.eessi= environment.vars. environment.secrets= environment.setup= environment.setup_node= container.runtime= container.image= container.mounts= container.workdir= container.writable= container.mount_home= container.remap_root= container.entrypoint= container.name= container.save= launch.preset= launch.command= launch.nproc_per_node= launch.roles.chief= launch.roles.ps= launch.roles.evaluator= launch.mpi= launch.cpu_bind= launch.gpu_bind= launch.agent= launch.srun. components= hetjob= download.path= download.files= stage= outputs= train.data.dataset= train.data.path= train.data.download= train.data.train_samples= train.data.test_samples= train.data.patch_size= train.model= train.hidden= train.layers= train.loss= train.optimizer.name= train.optimizer.momentum= train.optimizer.weight_decay= train.optimizer.beta1= train.optimizer.beta2= train.optimizer.epsilon= train.optimizer.alpha= train.optimizer.trust= train.optimizer.state= train.compression= train.local_steps= train.local_after= train.clip_norm= train.lr= train.lr_scaling= train.lr_decay= train.lr_steps= train.lr_step_factor= train.lr_power= train.warmup_epochs= train.batch= train.micro_batch= train.epochs= train.augment= train.shard= train.seed= train.backend= train.device= train.precision= train.cuda_graphs= train.trace_steps= train.threads= checkpoint.dir= checkpoint.every= checkpoint.keep= checkpoint.resume= checkpoint.signal_before= retry.max= retry.on= retry.exclude_bad_nodes= retry.no_progress= retry.grow.mem= retry.grow.max= retry.chain= health.preflight= health.hang_after= health.idle_gpu_after= health.idle_gpu= health.known_bad.file= health.known_bad.for= profile.tool= profile.ranks= profile.delay= profile.for= notify.on= notify.webhook.secret= notify.webhook.url= notify.command= track.tensorboard= track.mlflow.url= track.mlflow.experiment= track.mlflow.secret= track.wandb.project= track.wandb.entity= track.wandb.mode= after.ok= after.any= after.notok= code.snapshot= sweep.parameters= sweep.points= sweep.random= sweep.seed= sweep.max_parallel= sweep.pack= sweep.ask= sweep.ask_timeout= sweep.max_points= sweep.stop_early.metric= sweep.stop_early.rule= sweep.stop_early.after= submit.via= submit.url= submit.token_file=
end

function __dlrun_set
    set -l token (commandline -ct)
    if not string match -q '*=*' -- $token
        __dlrun_keys
        return
    end
    set -l key (string split -m1 = -- $token)[1]
    set -l words
    switch $key
        case resources.hint
            set words compute_bound memory_bound multithread nomultithread
        case container.runtime
            set words auto pyxis enroot apptainer charliecloud none
        case hetjob
            set words auto true false
        case train.data.dataset
            set words mnist idx cifar10 arrays digits patches
        case train.model
            set words mlp cnn resnet18 resnet50 efficientnet-b0
        case train.loss
            set words softmax sigmoid
        case train.optimizer.name
            set words adam adamw sgd nesterov rmsprop lars lamb novograd lion
        case train.optimizer.state
            set words whole sharded
        case train.compression
            set words none bf16 fp16
        case train.lr_scaling
            set words none linear sqrt
        case train.lr_decay
            set words constant linear cosine step polynomial
        case train.shard
            set words sample file epoch
        case train.backend
            set words auto mpi gloo shm nccl single
        case train.device
            set words cpu cuda
        case train.precision
            set words float32 bf16
        case retry.on
            set words timeout preemption node_failure hang oom failure
        case health.preflight
            set words gpu nccl rccl gloo disk clock binding fabric
        case health.idle_gpu
            set words warn end
        case profile.tool
            set words nsys py-spy perf
        case notify.on
            set words started completed failed cancelled restarted hang
        case track.wandb.mode
            set words online offline
        case sweep.stop_early.rule
            set words median
        case submit.via
            set words sbatch slurmrestd
        case resources.exclusive environment.modules.purge container.writable container.mount_home container.remap_root container.entrypoint launch.agent train.cuda_graphs checkpoint.resume retry.exclude_bad_nodes track.tensorboard code.snapshot
            set words true false
        case site
            set words (dlrun completion --list sites 2>/dev/null)
        case launch.preset
            set words (dlrun completion --list presets 2>/dev/null)
        case base resources.output resources.error environment.modules.use environment.conda.name environment.venv environment.uv.project environment.pixi.project environment.spack container.image container.save download.path train.data.path health.known_bad.file submit.token_file
            set words (__fish_complete_path (string split -m1 = -- $token)[2])
    end
    test (count $words) -gt 0; and printf "$key=%s\n" $words
end

complete -c dlrun -f
complete -c dlrun -n __fish_use_subcommand -s v -l verbose -d 'Log on stderr'
complete -c dlrun -n __fish_use_subcommand -l log-file -rF -d 'Append the log to this file'
complete -c dlrun -n __fish_use_subcommand -s H -l host -x -a '(dlrun completion --list hosts 2>/dev/null)' -d 'Run on this host'
complete -c dlrun -n __fish_use_subcommand -a submit -d 'Check, render, record and submit an experiment or a job script'
complete -c dlrun -n __fish_use_subcommand -a render -d 'Print the job script, which plain `sbatch` accepts'
complete -c dlrun -n __fish_use_subcommand -a check -d 'Report every mistake in a spec, and whether Slurm would accept the job'
complete -c dlrun -n __fish_use_subcommand -a interactive -d 'Open a shell, or run a command, on the first node of a new allocation, in the job`s environment and container'
complete -c dlrun -n __fish_use_subcommand -a run -d 'Run the experiment on this machine, as one node without Slurm, or in an allocation (--here)'
complete -c dlrun -n __fish_use_subcommand -a ls -d 'List your runs, newest first'
complete -c dlrun -n __fish_use_subcommand -a status -d 'Show the state, progress and results of a run, and the rank that failed first'
complete -c dlrun -n __fish_use_subcommand -a top -d 'Watch a run: progress, throughput, loss, resource use of every rank, slow ranks'
complete -c dlrun -n __fish_use_subcommand -a report -d 'Write a self-contained HTML page with the curves of a run, or one that compares several runs or the points of a sweep'
complete -c dlrun -n __fish_use_subcommand -a logs -d 'Print the output of a run'
complete -c dlrun -n __fish_use_subcommand -a wait -d 'Wait until runs have ended; exit with 0, or with the first other code of a run, such as 5 (failed)'
complete -c dlrun -n __fish_use_subcommand -a cancel -d 'Cancel runs'
complete -c dlrun -n __fish_use_subcommand -a rm -d 'Delete runs that have ended, with their checkpoints; asks on a terminal'
complete -c dlrun -n __fish_use_subcommand -a prune -d 'Delete the runs that ended long ago; asks on a terminal'
complete -c dlrun -n __fish_use_subcommand -a du -d 'Show the space that runs take on the disk, the largest first (default: all your runs)'
complete -c dlrun -n __fish_use_subcommand -a attach -d 'Open a shell, or run a command, beside the ranks of a running job, in the job`s environment and container'
complete -c dlrun -n __fish_use_subcommand -a forward -d 'Open ports of a running job`s node on this machine: Jupyter, TensorBoard, a server'
complete -c dlrun -n __fish_use_subcommand -a ssh-config -d 'Print a block for ~/.ssh/config with which ssh, scp and editors reach a running job`s node, in the job`s environment'
complete -c dlrun -n __fish_use_subcommand -a sweep -d 'List the points of a sweep and their results, best first'
complete -c dlrun -n __fish_use_subcommand -a nodes -d 'List the bad nodes that earlier runs found and later runs avoid, or forget some of them'
complete -c dlrun -n __fish_use_subcommand -a notify -d 'List the unsent messages of runs, or send them'
complete -c dlrun -n __fish_use_subcommand -a track -d 'Send the record of a run to its MLflow server'
complete -c dlrun -n __fish_use_subcommand -a diff -d 'Show what was edited in a rendered script, before or after its submission'
complete -c dlrun -n __fish_use_subcommand -a resubmit -d 'Submit the script of a run again as a new run, which starts from the beginning; for a sweep, submit the points that Slurm has not accepted'
complete -c dlrun -n __fish_use_subcommand -a schema -d 'Print the JSON Schema of a spec; editors use it to complete and check specs'
complete -c dlrun -n __fish_use_subcommand -a explain -d 'Describe a key, or list every value of a spec and its origin'
complete -c dlrun -n __fish_use_subcommand -a man -d 'Print the manual page: dlrun man | man -l -'
complete -c dlrun -n __fish_use_subcommand -a site -d 'Show what dlrun knows about clusters: limits, GPUs, containers, network'
complete -c dlrun -n __fish_use_subcommand -a init -d 'Write a first spec from answers on a terminal, from options or from a job script; PROGRAM follows --'
complete -c dlrun -n __fish_use_subcommand -a doctor -d 'Show what this cluster has and what is missing, or print a site file for it'
complete -c dlrun -n __fish_use_subcommand -a container -d 'Import container images once for all jobs, and list them'
complete -c dlrun -n __fish_use_subcommand -a bench -d 'Measure the speed of collectives on this machine, or how an experiment scales'
complete -c dlrun -n __fish_use_subcommand -a completion -d 'Print a completion script for a shell'
complete -c dlrun -n __fish_use_subcommand -a host -d 'List the hosts of -H, or check, open (login) or close (forget) the connection to one of them'
complete -c dlrun -n __fish_use_subcommand -a pull -d 'Copy the files of a run from the host of -H to this machine; deletes nothing'
complete -c dlrun -n '__fish_seen_subcommand_from submit' -s h -l help -d 'Print the help of the command and exit'
complete -c dlrun -n '__fish_seen_subcommand_from submit' -l set -x -a '(__dlrun_set)' -d 'Override a key of the spec, for example resources.nodes=4; repeatable'
complete -c dlrun -n '__fish_seen_subcommand_from submit' -l runs -rF -d 'Folder for run directories (default: $DLRUN_RUNS, else the folder of the site, else ./runs)'
complete -c dlrun -n '__fish_seen_subcommand_from submit' -l chain -d 'Submit several specs; each job starts after the one before has succeeded (the key retry.chain is for several jobs of one run)'
complete -c dlrun -n '__fish_seen_subcommand_from submit' -l rehearse -x -d 'First run the program this long on two ranks, in PARTITION (default: the suitable partition with the shortest time limit); the run itself starts only if the rehearsal succeeds'
complete -c dlrun -n '__fish_seen_subcommand_from submit' -l watch -d 'Follow the output until the job ends; exit with 0, or with 5 if the run failed'
complete -c dlrun -n '__fish_seen_subcommand_from submit' -l in -x -d 'Start the run in the allocation of this running job of yours, without a queue'
complete -c dlrun -n '__fish_seen_subcommand_from submit' -l dry-run -d 'Print what dlrun would do; write and submit nothing'
complete -c dlrun -n '__fish_seen_subcommand_from submit' -l test-only -d 'Ask Slurm whether and when the job would run; submit nothing'
complete -c dlrun -n '__fish_seen_subcommand_from submit' -l continue -x -d 'Continue the search RUN: its program first gets the results of the earlier points'
complete -c dlrun -n '__fish_seen_subcommand_from submit' -l json -d 'Print a JSON object'
complete -c dlrun -n '__fish_seen_subcommand_from submit' -s v -l verbose -d 'Log commands, requests and decisions on stderr; -vv: also files and details'
complete -c dlrun -n '__fish_seen_subcommand_from submit' -l log-file -rF -d 'Append the log to this file (0600) instead of stderr; implies -v'
complete -c dlrun -n '__fish_seen_subcommand_from submit' -F
complete -c dlrun -n '__fish_seen_subcommand_from render' -s h -l help -d 'Print the help of the command and exit'
complete -c dlrun -n '__fish_seen_subcommand_from render' -l set -x -a '(__dlrun_set)' -d 'Override a key of the spec, for example resources.nodes=4; repeatable'
complete -c dlrun -n '__fish_seen_subcommand_from render' -l runs -rF -d 'Folder for run directories (default: $DLRUN_RUNS, else the folder of the site, else ./runs)'
complete -c dlrun -n '__fish_seen_subcommand_from render' -s o -l output -rF -d 'File to write instead of standard output'
complete -c dlrun -n '__fish_seen_subcommand_from render' -l force -d 'Overwrite the file even if it is an edited script, or no script of dlrun'
complete -c dlrun -n '__fish_seen_subcommand_from render' -l point -x -d 'Point of a sweep whose script to print, counted from 0'
complete -c dlrun -n '__fish_seen_subcommand_from render' -s v -l verbose -d 'Log commands, requests and decisions on stderr; -vv: also files and details'
complete -c dlrun -n '__fish_seen_subcommand_from render' -l log-file -rF -d 'Append the log to this file (0600) instead of stderr; implies -v'
complete -c dlrun -n '__fish_seen_subcommand_from render' -F
complete -c dlrun -n '__fish_seen_subcommand_from check' -s h -l help -d 'Print the help of the command and exit'
complete -c dlrun -n '__fish_seen_subcommand_from check' -l set -x -a '(__dlrun_set)' -d 'Override a key of the spec, for example resources.nodes=4; repeatable'
complete -c dlrun -n '__fish_seen_subcommand_from check' -l runs -rF -d 'Folder for run directories (default: $DLRUN_RUNS, else the folder of the site, else ./runs)'
complete -c dlrun -n '__fish_seen_subcommand_from check' -l json -d 'Print a JSON object'
complete -c dlrun -n '__fish_seen_subcommand_from check' -s v -l verbose -d 'Log commands, requests and decisions on stderr; -vv: also files and details'
complete -c dlrun -n '__fish_seen_subcommand_from check' -l log-file -rF -d 'Append the log to this file (0600) instead of stderr; implies -v'
complete -c dlrun -n '__fish_seen_subcommand_from check' -F
complete -c dlrun -n '__fish_seen_subcommand_from interactive' -s h -l help -d 'Print the help of the command and exit'
complete -c dlrun -n '__fish_seen_subcommand_from interactive' -l set -x -a '(__dlrun_set)' -d 'Override a key of the spec, for example resources.nodes=4; repeatable'
complete -c dlrun -n '__fish_seen_subcommand_from interactive' -l runs -rF -d 'Folder for run directories (default: $DLRUN_RUNS, else the folder of the site, else ./runs)'
complete -c dlrun -n '__fish_seen_subcommand_from interactive' -l point -x -d 'Point of a sweep whose environment to use, counted from 0'
complete -c dlrun -n '__fish_seen_subcommand_from interactive' -l dry-run -d 'Print what dlrun would do, and start nothing'
complete -c dlrun -n '__fish_seen_subcommand_from interactive' -s v -l verbose -d 'Log commands, requests and decisions on stderr; -vv: also files and details'
complete -c dlrun -n '__fish_seen_subcommand_from interactive' -l log-file -rF -d 'Append the log to this file (0600) instead of stderr; implies -v'
complete -c dlrun -n '__fish_seen_subcommand_from interactive' -F
complete -c dlrun -n '__fish_seen_subcommand_from run' -s h -l help -d 'Print the help of the command and exit'
complete -c dlrun -n '__fish_seen_subcommand_from run' -l set -x -a '(__dlrun_set)' -d 'Override a key of the spec, for example resources.nodes=4; repeatable'
complete -c dlrun -n '__fish_seen_subcommand_from run' -l runs -rF -d 'Folder for run directories (default: $DLRUN_RUNS, else the folder of the site, else ./runs)'
complete -c dlrun -n '__fish_seen_subcommand_from run' -l here -d 'Run in the Slurm allocation of this shell, such as that of salloc'
complete -c dlrun -n '__fish_seen_subcommand_from run' -l dry-run -d 'Print the script; write and start nothing'
complete -c dlrun -n '__fish_seen_subcommand_from run' -l point -x -d 'Point of a sweep to run, counted from 0'
complete -c dlrun -n '__fish_seen_subcommand_from run' -l json -d 'Print a JSON object at the end, and the output of the ranks to standard error (with --here, do not print the output of the ranks)'
complete -c dlrun -n '__fish_seen_subcommand_from run' -s v -l verbose -d 'Log commands, requests and decisions on stderr; -vv: also files and details'
complete -c dlrun -n '__fish_seen_subcommand_from run' -l log-file -rF -d 'Append the log to this file (0600) instead of stderr; implies -v'
complete -c dlrun -n '__fish_seen_subcommand_from run' -F
complete -c dlrun -n '__fish_seen_subcommand_from ls' -s h -l help -d 'Print the help of the command and exit'
complete -c dlrun -n '__fish_seen_subcommand_from ls' -s a -l all -d 'List all runs, not only the newest'
complete -c dlrun -n '__fish_seen_subcommand_from ls' -s n -l limit -x -d 'Number of runs to list (default: 20); 0 lists all runs'
complete -c dlrun -n '__fish_seen_subcommand_from ls' -l runs -rF -d 'List the runs in this folder, and add missing ones to the index'
complete -c dlrun -n '__fish_seen_subcommand_from ls' -l name -x -d 'List the runs with this name, or with names that fit this pattern: `mnist*`'
complete -c dlrun -n '__fish_seen_subcommand_from ls' -l state -x -d 'List the runs in these states, such as failed,timeout. The states: not_submitted, refused, pending, running, completed, failed, cancelled, timeout, unknown'
complete -c dlrun -n '__fish_seen_subcommand_from ls' -l newer-than -x -d 'List the runs that were created less than this time ago: 7d, 12h, 2w'
complete -c dlrun -n '__fish_seen_subcommand_from ls' -l older-than -x -d 'List the runs that were created longer ago than this'
complete -c dlrun -n '__fish_seen_subcommand_from ls' -l json -d 'Print a JSON array'
complete -c dlrun -n '__fish_seen_subcommand_from ls' -s v -l verbose -d 'Log commands, requests and decisions on stderr; -vv: also files and details'
complete -c dlrun -n '__fish_seen_subcommand_from ls' -l log-file -rF -d 'Append the log to this file (0600) instead of stderr; implies -v'
complete -c dlrun -n '__fish_seen_subcommand_from status' -s h -l help -d 'Print the help of the command and exit'
complete -c dlrun -n '__fish_seen_subcommand_from status' -l json -d 'Print a JSON object'
complete -c dlrun -n '__fish_seen_subcommand_from status' -s v -l verbose -d 'Log commands, requests and decisions on stderr; -vv: also files and details'
complete -c dlrun -n '__fish_seen_subcommand_from status' -l log-file -rF -d 'Append the log to this file (0600) instead of stderr; implies -v'
complete -c dlrun -n '__fish_seen_subcommand_from status' -a '(__dlrun_runs)'
complete -c dlrun -n '__fish_seen_subcommand_from top' -s h -l help -d 'Print the help of the command and exit'
complete -c dlrun -n '__fish_seen_subcommand_from top' -s n -l ranks -x -d 'Show at most N ranks (the most unusual ones first), or at most N points of a sweep (default and 0: as many as fit; 20 if the state is printed once; all with --json)'
complete -c dlrun -n '__fish_seen_subcommand_from top' -l once -d 'Print the state once and exit (the default without a terminal, on a dumb one, and for a run that has ended)'
complete -c dlrun -n '__fish_seen_subcommand_from top' -l json -d 'Print a JSON object'
complete -c dlrun -n '__fish_seen_subcommand_from top' -s v -l verbose -d 'Log commands, requests and decisions on stderr; -vv: also files and details'
complete -c dlrun -n '__fish_seen_subcommand_from top' -l log-file -rF -d 'Append the log to this file (0600) instead of stderr; implies -v'
complete -c dlrun -n '__fish_seen_subcommand_from top' -a '(__dlrun_runs)'
complete -c dlrun -n '__fish_seen_subcommand_from report' -s h -l help -d 'Print the help of the command and exit'
complete -c dlrun -n '__fish_seen_subcommand_from report' -s o -l output -rF -d 'File to write; - means standard output (default: report.html in the directory of the run; ./report.html for several runs, and for another user`s run)'
complete -c dlrun -n '__fish_seen_subcommand_from report' -s v -l verbose -d 'Log commands, requests and decisions on stderr; -vv: also files and details'
complete -c dlrun -n '__fish_seen_subcommand_from report' -l log-file -rF -d 'Append the log to this file (0600) instead of stderr; implies -v'
complete -c dlrun -n '__fish_seen_subcommand_from report' -a '(__dlrun_runs)'
complete -c dlrun -n '__fish_seen_subcommand_from logs' -s h -l help -d 'Print the help of the command and exit'
complete -c dlrun -n '__fish_seen_subcommand_from logs' -s f -l follow -d 'Follow the output until the run ends'
complete -c dlrun -n '__fish_seen_subcommand_from logs' -l rank -x -d 'Print the output of these ranks instead of the output of the job: 2, or 0,4-7, or all; the lines of several ranks are labelled'
complete -c dlrun -n '__fish_seen_subcommand_from logs' -l component -x -d 'With --rank: component to which the rank belongs'
complete -c dlrun -n '__fish_seen_subcommand_from logs' -l attempt -x -d 'With --rank: number of the attempt, counted from 0 (default: the latest)'
complete -c dlrun -n '__fish_seen_subcommand_from logs' -l raw -d 'Print every byte unchanged, even on a terminal; without this option dlrun escapes control sequences other than colours'
complete -c dlrun -n '__fish_seen_subcommand_from logs' -s n -l tail -x -d 'Print only the last N lines of the existing output (default: all lines; 10 for each point of a sweep)'
complete -c dlrun -n '__fish_seen_subcommand_from logs' -s v -l verbose -d 'Log commands, requests and decisions on stderr; -vv: also files and details'
complete -c dlrun -n '__fish_seen_subcommand_from logs' -l log-file -rF -d 'Append the log to this file (0600) instead of stderr; implies -v'
complete -c dlrun -n '__fish_seen_subcommand_from logs' -a '(__dlrun_runs)'
complete -c dlrun -n '__fish_seen_subcommand_from wait' -s h -l help -d 'Print the help of the command and exit'
complete -c dlrun -n '__fish_seen_subcommand_from wait' -l json -d 'Print a JSON array of the states of the runs'
complete -c dlrun -n '__fish_seen_subcommand_from wait' -s v -l verbose -d 'Log commands, requests and decisions on stderr; -vv: also files and details'
complete -c dlrun -n '__fish_seen_subcommand_from wait' -l log-file -rF -d 'Append the log to this file (0600) instead of stderr; implies -v'
complete -c dlrun -n '__fish_seen_subcommand_from wait' -a '(__dlrun_runs)'
complete -c dlrun -n '__fish_seen_subcommand_from cancel' -s h -l help -d 'Print the help of the command and exit'
complete -c dlrun -n '__fish_seen_subcommand_from cancel' -s v -l verbose -d 'Log commands, requests and decisions on stderr; -vv: also files and details'
complete -c dlrun -n '__fish_seen_subcommand_from cancel' -l log-file -rF -d 'Append the log to this file (0600) instead of stderr; implies -v'
complete -c dlrun -n '__fish_seen_subcommand_from cancel' -a '(__dlrun_runs)'
complete -c dlrun -n '__fish_seen_subcommand_from rm' -s h -l help -d 'Print the help of the command and exit'
complete -c dlrun -n '__fish_seen_subcommand_from rm' -s y -l yes -d 'Delete without a question'
complete -c dlrun -n '__fish_seen_subcommand_from rm' -l dry-run -d 'List what would be deleted; delete nothing'
complete -c dlrun -n '__fish_seen_subcommand_from rm' -l json -d 'Print a JSON object'
complete -c dlrun -n '__fish_seen_subcommand_from rm' -s v -l verbose -d 'Log commands, requests and decisions on stderr; -vv: also files and details'
complete -c dlrun -n '__fish_seen_subcommand_from rm' -l log-file -rF -d 'Append the log to this file (0600) instead of stderr; implies -v'
complete -c dlrun -n '__fish_seen_subcommand_from rm' -a '(__dlrun_runs)'
complete -c dlrun -n '__fish_seen_subcommand_from prune' -s h -l help -d 'Print the help of the command and exit'
complete -c dlrun -n '__fish_seen_subcommand_from prune' -l older-than -x -d 'Delete runs that ended longer ago than this: 30d, 12h, 2w; the units are s, m (minutes), h, d and w'
complete -c dlrun -n '__fish_seen_subcommand_from prune' -l keep-checkpoints -d 'Delete only the diagnostic files: logs, traces, profiles and stacks of hung ranks; keep the checkpoints, the record, the code and all files that dlrun did not write'
complete -c dlrun -n '__fish_seen_subcommand_from prune' -l runs -rF -d 'Delete only runs in this folder'
complete -c dlrun -n '__fish_seen_subcommand_from prune' -s y -l yes -d 'Delete without a question'
complete -c dlrun -n '__fish_seen_subcommand_from prune' -l dry-run -d 'List what would be deleted; delete nothing'
complete -c dlrun -n '__fish_seen_subcommand_from prune' -l json -d 'Print a JSON object'
complete -c dlrun -n '__fish_seen_subcommand_from prune' -s v -l verbose -d 'Log commands, requests and decisions on stderr; -vv: also files and details'
complete -c dlrun -n '__fish_seen_subcommand_from prune' -l log-file -rF -d 'Append the log to this file (0600) instead of stderr; implies -v'
complete -c dlrun -n '__fish_seen_subcommand_from du' -s h -l help -d 'Print the help of the command and exit'
complete -c dlrun -n '__fish_seen_subcommand_from du' -l json -d 'Print a JSON array'
complete -c dlrun -n '__fish_seen_subcommand_from du' -s v -l verbose -d 'Log commands, requests and decisions on stderr; -vv: also files and details'
complete -c dlrun -n '__fish_seen_subcommand_from du' -l log-file -rF -d 'Append the log to this file (0600) instead of stderr; implies -v'
complete -c dlrun -n '__fish_seen_subcommand_from du' -a '(__dlrun_runs)'
complete -c dlrun -n '__fish_seen_subcommand_from attach' -s h -l help -d 'Print the help of the command and exit'
complete -c dlrun -n '__fish_seen_subcommand_from attach' -l node -x -d 'Node of the job to use (default: the first node)'
complete -c dlrun -n '__fish_seen_subcommand_from attach' -l dry-run -d 'Print what dlrun would do, and start nothing'
complete -c dlrun -n '__fish_seen_subcommand_from attach' -s v -l verbose -d 'Log commands, requests and decisions on stderr; -vv: also files and details'
complete -c dlrun -n '__fish_seen_subcommand_from attach' -l log-file -rF -d 'Append the log to this file (0600) instead of stderr; implies -v'
complete -c dlrun -n '__fish_seen_subcommand_from attach' -a '(__dlrun_runs)'
complete -c dlrun -n '__fish_seen_subcommand_from forward' -s h -l help -d 'Print the help of the command and exit'
complete -c dlrun -n '__fish_seen_subcommand_from forward' -l node -x -d 'Node of the job to use (default: the first node)'
complete -c dlrun -n '__fish_seen_subcommand_from forward' -l socket -d 'Listen on a unix socket that only you can open (default if you logged in by ssh, unless you give a local port as PORT:LOCAL)'
complete -c dlrun -n '__fish_seen_subcommand_from forward' -l any-user -d 'Connect to programs of other users of the node, too (default: only to yours and root`s)'
complete -c dlrun -n '__fish_seen_subcommand_from forward' -s v -l verbose -d 'Log commands, requests and decisions on stderr; -vv: also files and details'
complete -c dlrun -n '__fish_seen_subcommand_from forward' -l log-file -rF -d 'Append the log to this file (0600) instead of stderr; implies -v'
complete -c dlrun -n '__fish_seen_subcommand_from forward' -a '(__dlrun_runs)'
complete -c dlrun -n '__fish_seen_subcommand_from ssh-config' -s h -l help -d 'Print the help of the command and exit'
complete -c dlrun -n '__fish_seen_subcommand_from ssh-config' -l node -x -d 'Node of the job to use (default: the first node)'
complete -c dlrun -n '__fish_seen_subcommand_from ssh-config' -l connect -d 'Connect standard input and output to the node`s sshd; the ProxyCommand of the block calls dlrun with this option'
complete -c dlrun -n '__fish_seen_subcommand_from ssh-config' -s v -l verbose -d 'Log commands, requests and decisions on stderr; -vv: also files and details'
complete -c dlrun -n '__fish_seen_subcommand_from ssh-config' -l log-file -rF -d 'Append the log to this file (0600) instead of stderr; implies -v'
complete -c dlrun -n '__fish_seen_subcommand_from ssh-config' -a '(__dlrun_runs)'
complete -c dlrun -n '__fish_seen_subcommand_from sweep' -s h -l help -d 'Print the help of the command and exit'
complete -c dlrun -n '__fish_seen_subcommand_from sweep' -l sort -x -d 'What to sort by: a result (test_accuracy, loss, ...), a swept key, or `point`, the number of the point'
complete -c dlrun -n '__fish_seen_subcommand_from sweep' -l ascending -d 'List the smallest value first (the default for losses, errors, times and point)'
complete -c dlrun -n '__fish_seen_subcommand_from sweep' -l descending -d 'List the largest value first (the default for all other results and keys)'
complete -c dlrun -n '__fish_seen_subcommand_from sweep' -s n -l limit -x -d 'Number of points to list (default: all)'
complete -c dlrun -n '__fish_seen_subcommand_from sweep' -l json -d 'Print a JSON array'
complete -c dlrun -n '__fish_seen_subcommand_from sweep' -s v -l verbose -d 'Log commands, requests and decisions on stderr; -vv: also files and details'
complete -c dlrun -n '__fish_seen_subcommand_from sweep' -l log-file -rF -d 'Append the log to this file (0600) instead of stderr; implies -v'
complete -c dlrun -n '__fish_seen_subcommand_from sweep' -a '(__dlrun_runs)'
complete -c dlrun -n '__fish_seen_subcommand_from nodes' -s h -l help -d 'Print the help of the command and exit'
complete -c dlrun -n '__fish_seen_subcommand_from nodes' -l runs -rF -d 'Runs folder with the file of bad nodes (default: $DLRUN_RUNS, else the folder of the site, else ./runs)'
complete -c dlrun -n '__fish_seen_subcommand_from nodes' -l file -rF -d 'File of bad nodes'
complete -c dlrun -n '__fish_seen_subcommand_from nodes' -l forget -x -d 'Forget that these nodes are bad: n3 or n[1-4]; repeatable'
complete -c dlrun -n '__fish_seen_subcommand_from nodes' -l json -d 'Print a JSON object'
complete -c dlrun -n '__fish_seen_subcommand_from nodes' -s v -l verbose -d 'Log commands, requests and decisions on stderr; -vv: also files and details'
complete -c dlrun -n '__fish_seen_subcommand_from nodes' -l log-file -rF -d 'Append the log to this file (0600) instead of stderr; implies -v'
complete -c dlrun -n '__fish_seen_subcommand_from nodes' -F
complete -c dlrun -n '__fish_seen_subcommand_from notify' -s h -l help -d 'Print the help of the command and exit'
complete -c dlrun -n '__fish_seen_subcommand_from notify' -l relay -d 'Send the messages that wait, each once; also run notify.command if RUN is given'
complete -c dlrun -n '__fish_seen_subcommand_from notify' -l webhooks -d 'With --relay: do not run notify.command'
complete -c dlrun -n '__fish_seen_subcommand_from notify' -l json -d 'Print a JSON array'
complete -c dlrun -n '__fish_seen_subcommand_from notify' -s v -l verbose -d 'Log commands, requests and decisions on stderr; -vv: also files and details'
complete -c dlrun -n '__fish_seen_subcommand_from notify' -l log-file -rF -d 'Append the log to this file (0600) instead of stderr; implies -v'
complete -c dlrun -n '__fish_seen_subcommand_from notify' -a '(__dlrun_runs)'
complete -c dlrun -n '__fish_seen_subcommand_from track' -s h -l help -d 'Print the help of the command and exit'
complete -c dlrun -n '__fish_seen_subcommand_from track' -s v -l verbose -d 'Log commands, requests and decisions on stderr; -vv: also files and details'
complete -c dlrun -n '__fish_seen_subcommand_from track' -l log-file -rF -d 'Append the log to this file (0600) instead of stderr; implies -v'
complete -c dlrun -n '__fish_seen_subcommand_from track' -a '(__dlrun_runs)'
complete -c dlrun -n '__fish_seen_subcommand_from track; and not __fish_seen_subcommand_from sync' -a 'sync'
complete -c dlrun -n '__fish_seen_subcommand_from diff' -s h -l help -d 'Print the help of the command and exit'
complete -c dlrun -n '__fish_seen_subcommand_from diff' -s v -l verbose -d 'Log commands, requests and decisions on stderr; -vv: also files and details'
complete -c dlrun -n '__fish_seen_subcommand_from diff' -l log-file -rF -d 'Append the log to this file (0600) instead of stderr; implies -v'
complete -c dlrun -n '__fish_seen_subcommand_from diff' -a '(__dlrun_runs)'
complete -c dlrun -n '__fish_seen_subcommand_from resubmit' -s h -l help -d 'Print the help of the command and exit'
complete -c dlrun -n '__fish_seen_subcommand_from resubmit' -l watch -d 'Follow the output until the job ends; exit with 0, or with 5 if the run failed'
complete -c dlrun -n '__fish_seen_subcommand_from resubmit' -l force -d 'Submit even if the run has not ended'
complete -c dlrun -n '__fish_seen_subcommand_from resubmit' -l json -d 'Print a JSON object'
complete -c dlrun -n '__fish_seen_subcommand_from resubmit' -s v -l verbose -d 'Log commands, requests and decisions on stderr; -vv: also files and details'
complete -c dlrun -n '__fish_seen_subcommand_from resubmit' -l log-file -rF -d 'Append the log to this file (0600) instead of stderr; implies -v'
complete -c dlrun -n '__fish_seen_subcommand_from resubmit' -a '(__dlrun_runs)'
complete -c dlrun -n '__fish_seen_subcommand_from schema' -s h -l help -d 'Print the help of the command and exit'
complete -c dlrun -n '__fish_seen_subcommand_from schema' -s v -l verbose -d 'Log commands, requests and decisions on stderr; -vv: also files and details'
complete -c dlrun -n '__fish_seen_subcommand_from schema' -l log-file -rF -d 'Append the log to this file (0600) instead of stderr; implies -v'
complete -c dlrun -n '__fish_seen_subcommand_from explain' -s h -l help -d 'Print the help of the command and exit'
complete -c dlrun -n '__fish_seen_subcommand_from explain' -l set -x -a '(__dlrun_set)' -d 'Override a key of the spec, for example resources.nodes=4; repeatable'
complete -c dlrun -n '__fish_seen_subcommand_from explain' -l json -d 'Print a JSON array'
complete -c dlrun -n '__fish_seen_subcommand_from explain' -l markdown -d 'Print the reference of all keys, docs/keys.md'
complete -c dlrun -n '__fish_seen_subcommand_from explain' -s v -l verbose -d 'Log commands, requests and decisions on stderr; -vv: also files and details'
complete -c dlrun -n '__fish_seen_subcommand_from explain' -l log-file -rF -d 'Append the log to this file (0600) instead of stderr; implies -v'
complete -c dlrun -n '__fish_seen_subcommand_from explain' -a '(__dlrun_keys | string trim -r -c .=)'
complete -c dlrun -n '__fish_seen_subcommand_from explain' -F
complete -c dlrun -n '__fish_seen_subcommand_from man' -s h -l help -d 'Print the help of the command and exit'
complete -c dlrun -n '__fish_seen_subcommand_from man' -s v -l verbose -d 'Log commands, requests and decisions on stderr; -vv: also files and details'
complete -c dlrun -n '__fish_seen_subcommand_from man' -l log-file -rF -d 'Append the log to this file (0600) instead of stderr; implies -v'
complete -c dlrun -n '__fish_seen_subcommand_from site' -s h -l help -d 'Print the help of the command and exit'
complete -c dlrun -n '__fish_seen_subcommand_from site' -l json -d 'Print JSON'
complete -c dlrun -n '__fish_seen_subcommand_from site' -s v -l verbose -d 'Log commands, requests and decisions on stderr; -vv: also files and details'
complete -c dlrun -n '__fish_seen_subcommand_from site' -l log-file -rF -d 'Append the log to this file (0600) instead of stderr; implies -v'
complete -c dlrun -n '__fish_seen_subcommand_from site; and __fish_seen_subcommand_from list show' -a '(dlrun completion --list sites 2>/dev/null)'
complete -c dlrun -n '__fish_seen_subcommand_from site; and not __fish_seen_subcommand_from list show' -a 'list show'
complete -c dlrun -n '__fish_seen_subcommand_from init' -s h -l help -d 'Print the help of the command and exit'
complete -c dlrun -n '__fish_seen_subcommand_from init' -l site -x -a '(dlrun completion --list sites 2>/dev/null)' -d 'Name of a site, from dlrun site list (default: the site of this cluster)'
complete -c dlrun -n '__fish_seen_subcommand_from init' -l from -rF -d 'Make the spec from this job script for sbatch; nothing of the script is run'
complete -c dlrun -n '__fish_seen_subcommand_from init' -l name -x -d 'Name of the experiment (default: hello)'
complete -c dlrun -n '__fish_seen_subcommand_from init' -l nodes -x -d 'Number of nodes (default: 1)'
complete -c dlrun -n '__fish_seen_subcommand_from init' -l gpus -x -d 'GPUs of each node: 4 or a100:4 (default: all GPUs of a node of the partition, or one slice if they are sliced)'
complete -c dlrun -n '__fish_seen_subcommand_from init' -l tasks -x -d 'Ranks on each node (default: one per GPU, 1 without GPUs)'
complete -c dlrun -n '__fish_seen_subcommand_from init' -l cpus -x -d 'CPUs of each rank'
complete -c dlrun -n '__fish_seen_subcommand_from init' -l mem -x -d 'Memory of each node, such as 64G'
complete -c dlrun -n '__fish_seen_subcommand_from init' -l time -x -d 'Time limit, such as 1h30m (default: 1h, or the limit of the partition if that is shorter)'
complete -c dlrun -n '__fish_seen_subcommand_from init' -l partition -x -d 'Partition (default: the default partition of the cluster)'
complete -c dlrun -n '__fish_seen_subcommand_from init' -l account -x -d 'Account to charge'
complete -c dlrun -n '__fish_seen_subcommand_from init' -l image -x -d 'Container image'
complete -c dlrun -n '__fish_seen_subcommand_from init' -l runtime -x -d 'Tool that runs the image: pyxis, enroot, apptainer or charliecloud (default: the tool of the site)'
complete -c dlrun -n '__fish_seen_subcommand_from init' -l module -x -d 'Module to load; repeatable'
complete -c dlrun -n '__fish_seen_subcommand_from init' -l conda -x -d 'Conda environment'
complete -c dlrun -n '__fish_seen_subcommand_from init' -l venv -rF -d 'Python virtual environment'
complete -c dlrun -n '__fish_seen_subcommand_from init' -l preset -x -d 'Preset that starts the program (default: plain)'
complete -c dlrun -n '__fish_seen_subcommand_from init' -s o -l output -rF -d 'File to write (default: standard output; NAME.yaml after questions on a terminal)'
complete -c dlrun -n '__fish_seen_subcommand_from init' -l force -d 'Overwrite the file if it exists'
complete -c dlrun -n '__fish_seen_subcommand_from init' -s y -l yes -d 'Ask no questions'
complete -c dlrun -n '__fish_seen_subcommand_from init' -s v -l verbose -d 'Log commands, requests and decisions on stderr; -vv: also files and details'
complete -c dlrun -n '__fish_seen_subcommand_from init' -l log-file -rF -d 'Append the log to this file (0600) instead of stderr; implies -v'
complete -c dlrun -n '__fish_seen_subcommand_from doctor' -s h -l help -d 'Print the help of the command and exit'
complete -c dlrun -n '__fish_seen_subcommand_from doctor' -s M -l cluster -x -d 'Cluster to examine instead of this one (-M of Slurm)'
complete -c dlrun -n '__fish_seen_subcommand_from doctor' -l site-file -d 'Print only the draft of a site file'
complete -c dlrun -n '__fish_seen_subcommand_from doctor' -l json -d 'Print a JSON object'
complete -c dlrun -n '__fish_seen_subcommand_from doctor' -s v -l verbose -d 'Log commands, requests and decisions on stderr; -vv: also files and details'
complete -c dlrun -n '__fish_seen_subcommand_from doctor' -l log-file -rF -d 'Append the log to this file (0600) instead of stderr; implies -v'
complete -c dlrun -n '__fish_seen_subcommand_from container' -s h -l help -d 'Print the help of the command and exit'
complete -c dlrun -n '__fish_seen_subcommand_from container' -l refresh -d 'import: fetch the image again, even if it is already stored'
complete -c dlrun -n '__fish_seen_subcommand_from container' -l json -d 'Print JSON'
complete -c dlrun -n '__fish_seen_subcommand_from container' -s v -l verbose -d 'Log commands, requests and decisions on stderr; -vv: also files and details'
complete -c dlrun -n '__fish_seen_subcommand_from container' -l log-file -rF -d 'Append the log to this file (0600) instead of stderr; implies -v'
complete -c dlrun -n '__fish_seen_subcommand_from container; and __fish_seen_subcommand_from import list' -F
complete -c dlrun -n '__fish_seen_subcommand_from container; and not __fish_seen_subcommand_from import list' -a 'import list'
complete -c dlrun -n '__fish_seen_subcommand_from bench' -s h -l help -d 'Print the help of the command and exit'
complete -c dlrun -n '__fish_seen_subcommand_from bench' -l nodes -x -d 'scaling: numbers of nodes, such as 1,2,4; dlrun submits one job for each'
complete -c dlrun -n '__fish_seen_subcommand_from bench' -l local -x -d 'scaling: numbers of ranks on this machine, such as 1,2,4; dlrun does not use Slurm'
complete -c dlrun -n '__fish_seen_subcommand_from bench' -l set -x -a '(__dlrun_set)' -d 'Override a key of the spec, for example resources.nodes=4; repeatable'
complete -c dlrun -n '__fish_seen_subcommand_from bench' -l runs -rF -d 'scaling: folder for run directories'
complete -c dlrun -n '__fish_seen_subcommand_from bench' -l backends -x -d 'collectives: backends to measure (default: mpi,gloo,shm,nccl); dlrun leaves out a backend that does not work here'
complete -c dlrun -n '__fish_seen_subcommand_from bench' -l ranks -x -d 'collectives: numbers of ranks (default: 2,4,8)'
complete -c dlrun -n '__fish_seen_subcommand_from bench' -l sizes -x -d 'collectives: sizes in bytes, such as 8,64K,16M; in a range such as 8..16M each size is four times the one before (default: 8..16M)'
complete -c dlrun -n '__fish_seen_subcommand_from bench' -l operation -x -d 'collectives: all_reduce, broadcast, all_gather or reduce_scatter (default: all_reduce)'
complete -c dlrun -n '__fish_seen_subcommand_from bench' -l svg -rF -d 'SVG file for a chart of the results'
complete -c dlrun -n '__fish_seen_subcommand_from bench' -l json -d 'Print JSON'
complete -c dlrun -n '__fish_seen_subcommand_from bench' -s v -l verbose -d 'Log commands, requests and decisions on stderr; -vv: also files and details'
complete -c dlrun -n '__fish_seen_subcommand_from bench' -l log-file -rF -d 'Append the log to this file (0600) instead of stderr; implies -v'
complete -c dlrun -n '__fish_seen_subcommand_from bench; and __fish_seen_subcommand_from collectives scaling' -F
complete -c dlrun -n '__fish_seen_subcommand_from bench; and not __fish_seen_subcommand_from collectives scaling' -a 'collectives scaling'
complete -c dlrun -n '__fish_seen_subcommand_from completion' -s h -l help -d 'Print the help of the command and exit'
complete -c dlrun -n '__fish_seen_subcommand_from completion' -l list -x -d 'List of names to print for a completion script: hosts, sites or presets'
complete -c dlrun -n '__fish_seen_subcommand_from completion' -s v -l verbose -d 'Log commands, requests and decisions on stderr; -vv: also files and details'
complete -c dlrun -n '__fish_seen_subcommand_from completion' -l log-file -rF -d 'Append the log to this file (0600) instead of stderr; implies -v'
complete -c dlrun -n '__fish_seen_subcommand_from completion; and not __fish_seen_subcommand_from bash zsh fish' -a 'bash zsh fish'
complete -c dlrun -n '__fish_seen_subcommand_from host' -s h -l help -d 'Print the help of the command and exit'
complete -c dlrun -n '__fish_seen_subcommand_from host' -l json -d 'list: print a JSON array'
complete -c dlrun -n '__fish_seen_subcommand_from host' -s v -l verbose -d 'Log commands, requests and decisions on stderr; -vv: also files and details'
complete -c dlrun -n '__fish_seen_subcommand_from host' -l log-file -rF -d 'Append the log to this file (0600) instead of stderr; implies -v'
complete -c dlrun -n '__fish_seen_subcommand_from host; and __fish_seen_subcommand_from check forget list login' -a '(dlrun completion --list hosts 2>/dev/null)'
complete -c dlrun -n '__fish_seen_subcommand_from host; and not __fish_seen_subcommand_from check forget list login' -a 'check forget list login'
complete -c dlrun -n '__fish_seen_subcommand_from pull' -s h -l help -d 'Print the help of the command and exit'
complete -c dlrun -n '__fish_seen_subcommand_from pull' -l to -rF -d 'Folder to copy to (default: a folder here with the id of the run)'
complete -c dlrun -n '__fish_seen_subcommand_from pull' -s v -l verbose -d 'Log commands, requests and decisions on stderr; -vv: also files and details'
complete -c dlrun -n '__fish_seen_subcommand_from pull' -l log-file -rF -d 'Append the log to this file (0600) instead of stderr; implies -v'
complete -c dlrun -n '__fish_seen_subcommand_from pull' -a '(__dlrun_runs)'
