# Made by `dlrun completion fish` from the tree of commands and the key table; a test keeps it equal.
function __dlrun_runs
    set -l state $HOME/.local/state
    set -q XDG_STATE_HOME; and set state $XDG_STATE_HOME
    echo last
    command ls -t $state/dlrun/runs 2>/dev/null
end

function __dlrun_keys
    printf '%s\n' name= site= base= resources.clusters= resources.partition= resources.account= resources.qos= resources.reservation= resources.nodes= resources.spare_nodes= resources.ntasks= resources.tasks_per_node= resources.cpus_per_task= resources.gpus_per_node= resources.gpus= resources.gpus_per_task= resources.cpus_per_gpu= resources.gres= resources.mem= resources.mem_per_cpu= resources.mem_per_gpu= resources.time= resources.begin= resources.constraint= resources.nodelist= resources.exclude= resources.exclusive= resources.licenses= resources.hint= resources.threads_per_core= resources.distribution= resources.output= resources.error= resources.signal= slurm. environment.modules.purge= environment.modules.use= environment.modules.load= environment.conda.module= environment.conda.name= environment.venv= environment.vars. environment.secrets= environment.setup= environment.setup_node= container.runtime= container.image= container.mounts= container.workdir= container.writable= container.mount_home= container.remap_root= container.entrypoint= container.name= container.save= launch.preset= launch.command= launch.nproc_per_node= launch.roles.chief= launch.roles.ps= launch.roles.evaluator= launch.mpi= launch.cpu_bind= launch.gpu_bind= launch.agent= launch.srun. train.data.dataset= train.data.path= train.data.download= train.data.train_samples= train.data.test_samples= train.model= train.hidden= train.layers= train.loss= train.optimizer.name= train.optimizer.momentum= train.optimizer.weight_decay= train.optimizer.beta1= train.optimizer.beta2= train.optimizer.epsilon= train.optimizer.alpha= train.optimizer.trust= train.optimizer.state= train.compression= train.local_steps= train.local_after= train.clip_norm= train.lr= train.lr_scaling= train.lr_decay= train.lr_steps= train.lr_step_factor= train.lr_power= train.warmup_epochs= train.batch= train.micro_batch= train.epochs= train.shard= train.seed= train.backend= train.device= train.precision= train.cuda_graphs= train.trace_steps= train.threads= checkpoint.dir= checkpoint.every= checkpoint.keep= checkpoint.signal_before= retry.max= retry.on= retry.exclude_bad_nodes= retry.no_progress= health.preflight= health.hang_after= health.idle_gpu_after= health.idle_gpu= health.known_bad.file= health.known_bad.for= after.ok= after.any= after.notok= code.snapshot= sweep.parameters= sweep.points= sweep.random= sweep.seed= sweep.max_parallel= submit.via= submit.url= submit.token_file=
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
            set words auto pyxis enroot apptainer none
        case train.data.dataset
            set words mnist idx cifar10 arrays digits
        case train.model
            set words mlp cnn resnet18
        case train.loss
            set words softmax sigmoid
        case train.optimizer.name
            set words adam adamw sgd nesterov rmsprop lars lamb
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
            set words gpu nccl gloo disk clock
        case health.idle_gpu
            set words warn end
        case submit.via
            set words sbatch slurmrestd
        case resources.exclusive environment.modules.purge container.writable container.mount_home container.remap_root container.entrypoint launch.agent train.cuda_graphs retry.exclude_bad_nodes code.snapshot
            set words true false
        case site
            set words (dlrun completion --list sites 2>/dev/null)
        case launch.preset
            set words (dlrun completion --list presets 2>/dev/null)
        case base resources.output resources.error environment.modules.use environment.conda.name environment.venv container.image container.save train.data.path health.known_bad.file submit.token_file
            set words (__fish_complete_path (string split -m1 = -- $token)[2])
    end
    test (count $words) -gt 0; and printf "$key=%s\n" $words
end

complete -c dlrun -f
complete -c dlrun -n __fish_use_subcommand -a submit -d 'Check, render, record and submit an experiment, or a job script'
complete -c dlrun -n __fish_use_subcommand -a render -d 'Print the job script; plain `sbatch` takes it'
complete -c dlrun -n __fish_use_subcommand -a check -d 'Say all that is wrong, and whether Slurm would take it'
complete -c dlrun -n __fish_use_subcommand -a interactive -d 'A shell on the first node, in the job`s environment and container'
complete -c dlrun -n __fish_use_subcommand -a run -d 'Run the experiment on this machine, without Slurm'
complete -c dlrun -n __fish_use_subcommand -a ls -d 'List your runs, newest first'
complete -c dlrun -n __fish_use_subcommand -a status -d 'State, progress and results of a run; who failed first'
complete -c dlrun -n __fish_use_subcommand -a top -d 'Watch a run: progress, throughput, loss, every rank`s use of its node, stragglers'
complete -c dlrun -n __fish_use_subcommand -a report -d 'One self-contained page of a run with its curves; several runs, or a sweep: compared'
complete -c dlrun -n __fish_use_subcommand -a logs -d 'Print a run`s output'
complete -c dlrun -n __fish_use_subcommand -a wait -d 'Wait until runs have ended; exit with 0 or 5'
complete -c dlrun -n __fish_use_subcommand -a cancel -d 'End runs'
complete -c dlrun -n __fish_use_subcommand -a attach -d 'A shell, or a command, whose code is then dlrun`s, beside the ranks of a job that runs, in its environment and container'
complete -c dlrun -n __fish_use_subcommand -a sweep -d 'Tabulate a sweep`s points, the best first'
complete -c dlrun -n __fish_use_subcommand -a nodes -d 'List the bad nodes that runs remember for each other, or forget them'
complete -c dlrun -n __fish_use_subcommand -a diff -d 'What was edited in a rendered script, before or after it was submitted'
complete -c dlrun -n __fish_use_subcommand -a resubmit -d 'Submit a run`s script again, as a new run; of a sweep, the points that Slurm does not have'
complete -c dlrun -n __fish_use_subcommand -a schema -d 'Print the JSON Schema of a spec, with which editors complete and check it'
complete -c dlrun -n __fish_use_subcommand -a explain -d 'Say what a key means, or what a spec`s values are and where each came from'
complete -c dlrun -n __fish_use_subcommand -a man -d 'Print the manual page: dlrun man | man -l -'
complete -c dlrun -n __fish_use_subcommand -a site -d 'What is known of clusters: limits, GPUs, containers, network'
complete -c dlrun -n __fish_use_subcommand -a init -d 'Write a first spec: asks on a terminal, or takes flags'
complete -c dlrun -n __fish_use_subcommand -a doctor -d 'What this cluster has, what is missing, and a site file for it'
complete -c dlrun -n __fish_use_subcommand -a container -d 'Import images once for all jobs, and list them'
complete -c dlrun -n __fish_use_subcommand -a bench -d 'Measure what collectives cost on this machine, or how an experiment scales'
complete -c dlrun -n __fish_use_subcommand -a completion -d 'Print a completion script'
complete -c dlrun -n '__fish_seen_subcommand_from submit' -s h -l help -d 'Print this help message and exit'
complete -c dlrun -n '__fish_seen_subcommand_from submit' -l set -x -a '(__dlrun_set)' -d 'Override a key of the spec, e.g. resources.nodes=4; repeatable'
complete -c dlrun -n '__fish_seen_subcommand_from submit' -l runs -rF -d 'Where run directories are made; else $DLRUN_RUNS, the site`s, ./runs'
complete -c dlrun -n '__fish_seen_subcommand_from submit' -l watch -d 'Follow the log until the job ends; exit with 0 or 5'
complete -c dlrun -n '__fish_seen_subcommand_from submit' -l dry-run -d 'Print what would be done; write and submit nothing'
complete -c dlrun -n '__fish_seen_subcommand_from submit' -l test-only -d 'Ask Slurm whether and when it would run; submit nothing'
complete -c dlrun -n '__fish_seen_subcommand_from submit' -l json -d 'Print a JSON object'
complete -c dlrun -n '__fish_seen_subcommand_from submit' -F
complete -c dlrun -n '__fish_seen_subcommand_from render' -s h -l help -d 'Print this help message and exit'
complete -c dlrun -n '__fish_seen_subcommand_from render' -l set -x -a '(__dlrun_set)' -d 'Override a key of the spec, e.g. resources.nodes=4; repeatable'
complete -c dlrun -n '__fish_seen_subcommand_from render' -l runs -rF -d 'Where run directories are made; else $DLRUN_RUNS, the site`s, ./runs'
complete -c dlrun -n '__fish_seen_subcommand_from render' -s o -l output -rF -d 'Write it to a file instead'
complete -c dlrun -n '__fish_seen_subcommand_from render' -l force -d 'Overwrite a file that was edited'
complete -c dlrun -n '__fish_seen_subcommand_from render' -l point -x -d 'Of a sweep: this point`s own script, from 0'
complete -c dlrun -n '__fish_seen_subcommand_from render' -F
complete -c dlrun -n '__fish_seen_subcommand_from check' -s h -l help -d 'Print this help message and exit'
complete -c dlrun -n '__fish_seen_subcommand_from check' -l set -x -a '(__dlrun_set)' -d 'Override a key of the spec, e.g. resources.nodes=4; repeatable'
complete -c dlrun -n '__fish_seen_subcommand_from check' -l runs -rF -d 'Where run directories are made; else $DLRUN_RUNS, the site`s, ./runs'
complete -c dlrun -n '__fish_seen_subcommand_from check' -l json -d 'Print a JSON object'
complete -c dlrun -n '__fish_seen_subcommand_from check' -F
complete -c dlrun -n '__fish_seen_subcommand_from interactive' -s h -l help -d 'Print this help message and exit'
complete -c dlrun -n '__fish_seen_subcommand_from interactive' -l set -x -a '(__dlrun_set)' -d 'Override a key of the spec, e.g. resources.nodes=4; repeatable'
complete -c dlrun -n '__fish_seen_subcommand_from interactive' -l runs -rF -d 'Where run directories are made; else $DLRUN_RUNS, the site`s, ./runs'
complete -c dlrun -n '__fish_seen_subcommand_from interactive' -l point -x -d 'Of a sweep: in this point`s environment, from 0'
complete -c dlrun -n '__fish_seen_subcommand_from interactive' -l dry-run -d 'Print what would be done'
complete -c dlrun -n '__fish_seen_subcommand_from interactive' -F
complete -c dlrun -n '__fish_seen_subcommand_from run' -s h -l help -d 'Print this help message and exit'
complete -c dlrun -n '__fish_seen_subcommand_from run' -l set -x -a '(__dlrun_set)' -d 'Override a key of the spec, e.g. resources.nodes=4; repeatable'
complete -c dlrun -n '__fish_seen_subcommand_from run' -l runs -rF -d 'Where run directories are made; else $DLRUN_RUNS, the site`s, ./runs'
complete -c dlrun -n '__fish_seen_subcommand_from run' -l dry-run -d 'Print the script; write and start nothing'
complete -c dlrun -n '__fish_seen_subcommand_from run' -l point -x -d 'Of a sweep: run this point, from 0'
complete -c dlrun -n '__fish_seen_subcommand_from run' -l json -d 'Print a JSON object at the end, and the ranks` output to stderr'
complete -c dlrun -n '__fish_seen_subcommand_from run' -F
complete -c dlrun -n '__fish_seen_subcommand_from ls' -s h -l help -d 'Print this help message and exit'
complete -c dlrun -n '__fish_seen_subcommand_from ls' -s a -l all -d 'All of them, not only the newest'
complete -c dlrun -n '__fish_seen_subcommand_from ls' -s n -l limit -x -d 'How many (20); 0: all of them'
complete -c dlrun -n '__fish_seen_subcommand_from ls' -l runs -rF -d 'Those in this directory; adds to the index what it lacks'
complete -c dlrun -n '__fish_seen_subcommand_from ls' -l json -d 'Print a JSON array'
complete -c dlrun -n '__fish_seen_subcommand_from status' -s h -l help -d 'Print this help message and exit'
complete -c dlrun -n '__fish_seen_subcommand_from status' -l json -d 'Print a JSON object'
complete -c dlrun -n '__fish_seen_subcommand_from status' -a '(__dlrun_runs)'
complete -c dlrun -n '__fish_seen_subcommand_from top' -s h -l help -d 'Print this help message and exit'
complete -c dlrun -n '__fish_seen_subcommand_from top' -s n -l ranks -x -d 'At most N ranks, those that stand out first'
complete -c dlrun -n '__fish_seen_subcommand_from top' -l once -d 'Print it once instead of staying; so by itself where the output is no terminal or a dumb one'
complete -c dlrun -n '__fish_seen_subcommand_from top' -l json -d 'Print a JSON object'
complete -c dlrun -n '__fish_seen_subcommand_from top' -a '(__dlrun_runs)'
complete -c dlrun -n '__fish_seen_subcommand_from report' -s h -l help -d 'Print this help message and exit'
complete -c dlrun -n '__fish_seen_subcommand_from report' -s o -l output -rF -d 'Where to write it; `-` for standard output (the run`s report.html; of several ./report.html)'
complete -c dlrun -n '__fish_seen_subcommand_from report' -a '(__dlrun_runs)'
complete -c dlrun -n '__fish_seen_subcommand_from logs' -s h -l help -d 'Print this help message and exit'
complete -c dlrun -n '__fish_seen_subcommand_from logs' -s f -l follow -d 'Go on until the run ends'
complete -c dlrun -n '__fish_seen_subcommand_from logs' -l rank -x -d 'What this rank printed, instead of the job`s output'
complete -c dlrun -n '__fish_seen_subcommand_from logs' -l attempt -x -d 'With --rank: of this attempt, instead of the latest'
complete -c dlrun -n '__fish_seen_subcommand_from logs' -l raw -d 'On a terminal, too, pass on every byte: else what could control the terminal is escaped, but colours'
complete -c dlrun -n '__fish_seen_subcommand_from logs' -s n -l tail -x -d 'Only the last N lines of what is there'
complete -c dlrun -n '__fish_seen_subcommand_from logs' -a '(__dlrun_runs)'
complete -c dlrun -n '__fish_seen_subcommand_from wait' -s h -l help -d 'Print this help message and exit'
complete -c dlrun -n '__fish_seen_subcommand_from wait' -l json -d 'Print a JSON array of their states'
complete -c dlrun -n '__fish_seen_subcommand_from wait' -a '(__dlrun_runs)'
complete -c dlrun -n '__fish_seen_subcommand_from cancel' -s h -l help -d 'Print this help message and exit'
complete -c dlrun -n '__fish_seen_subcommand_from cancel' -a '(__dlrun_runs)'
complete -c dlrun -n '__fish_seen_subcommand_from attach' -s h -l help -d 'Print this help message and exit'
complete -c dlrun -n '__fish_seen_subcommand_from attach' -l node -x -d 'This node of the job`s; else its first'
complete -c dlrun -n '__fish_seen_subcommand_from attach' -l dry-run -d 'Print what would be done'
complete -c dlrun -n '__fish_seen_subcommand_from attach' -a '(__dlrun_runs)'
complete -c dlrun -n '__fish_seen_subcommand_from sweep' -s h -l help -d 'Print this help message and exit'
complete -c dlrun -n '__fish_seen_subcommand_from sweep' -l sort -x -d 'By this result (test_accuracy, loss, ...), key of the spec, or `point`'
complete -c dlrun -n '__fish_seen_subcommand_from sweep' -l ascending -d 'The smallest first; so by itself for losses, errors and times'
complete -c dlrun -n '__fish_seen_subcommand_from sweep' -l descending -d 'The largest first; so by itself for everything else'
complete -c dlrun -n '__fish_seen_subcommand_from sweep' -s n -l limit -x -d 'Only the first N'
complete -c dlrun -n '__fish_seen_subcommand_from sweep' -l json -d 'Print a JSON array'
complete -c dlrun -n '__fish_seen_subcommand_from sweep' -a '(__dlrun_runs)'
complete -c dlrun -n '__fish_seen_subcommand_from nodes' -s h -l help -d 'Print this help message and exit'
complete -c dlrun -n '__fish_seen_subcommand_from nodes' -l runs -rF -d 'Those of this runs folder; else $DLRUN_RUNS, the site`s, ./runs'
complete -c dlrun -n '__fish_seen_subcommand_from nodes' -l file -rF -d 'Those of this file'
complete -c dlrun -n '__fish_seen_subcommand_from nodes' -l forget -x -d 'Forget that these nodes are bad: n3 or n[1-4]; repeatable'
complete -c dlrun -n '__fish_seen_subcommand_from nodes' -l json -d 'Print a JSON object'
complete -c dlrun -n '__fish_seen_subcommand_from nodes' -F
complete -c dlrun -n '__fish_seen_subcommand_from diff' -s h -l help -d 'Print this help message and exit'
complete -c dlrun -n '__fish_seen_subcommand_from diff' -a '(__dlrun_runs)'
complete -c dlrun -n '__fish_seen_subcommand_from resubmit' -s h -l help -d 'Print this help message and exit'
complete -c dlrun -n '__fish_seen_subcommand_from resubmit' -l watch -d 'Follow the log until the job ends; exit with 0 or 5'
complete -c dlrun -n '__fish_seen_subcommand_from resubmit' -l force -d 'Also when the run has not ended'
complete -c dlrun -n '__fish_seen_subcommand_from resubmit' -l json -d 'Print a JSON object'
complete -c dlrun -n '__fish_seen_subcommand_from resubmit' -a '(__dlrun_runs)'
complete -c dlrun -n '__fish_seen_subcommand_from schema' -s h -l help -d 'Print this help message and exit'
complete -c dlrun -n '__fish_seen_subcommand_from explain' -s h -l help -d 'Print this help message and exit'
complete -c dlrun -n '__fish_seen_subcommand_from explain' -l set -x -a '(__dlrun_set)' -d 'Override a key of the spec, e.g. resources.nodes=4; repeatable'
complete -c dlrun -n '__fish_seen_subcommand_from explain' -l json -d 'Print a JSON array'
complete -c dlrun -n '__fish_seen_subcommand_from explain' -l markdown -d 'Print docs/keys.md, the reference of all keys'
complete -c dlrun -n '__fish_seen_subcommand_from explain' -a '(__dlrun_keys | string trim -r -c .=)'
complete -c dlrun -n '__fish_seen_subcommand_from explain' -F
complete -c dlrun -n '__fish_seen_subcommand_from man' -s h -l help -d 'Print this help message and exit'
complete -c dlrun -n '__fish_seen_subcommand_from site' -s h -l help -d 'Print this help message and exit'
complete -c dlrun -n '__fish_seen_subcommand_from site' -l json -d 'Print JSON'
complete -c dlrun -n '__fish_seen_subcommand_from site; and __fish_seen_subcommand_from list show' -a '(dlrun completion --list sites 2>/dev/null)'
complete -c dlrun -n '__fish_seen_subcommand_from site; and not __fish_seen_subcommand_from list show' -a 'list show'
complete -c dlrun -n '__fish_seen_subcommand_from init' -s h -l help -d 'Print this help message and exit'
complete -c dlrun -n '__fish_seen_subcommand_from init' -l site -x -a '(dlrun completion --list sites 2>/dev/null)' -d 'A site`s name, from dlrun site list; else the one here'
complete -c dlrun -n '__fish_seen_subcommand_from init' -l name -x -d 'The experiment`s name (hello)'
complete -c dlrun -n '__fish_seen_subcommand_from init' -l nodes -x -d 'How many nodes (1)'
complete -c dlrun -n '__fish_seen_subcommand_from init' -l gpus -x -d 'GPUs of each node: 4, a100:4; else the partition`s'
complete -c dlrun -n '__fish_seen_subcommand_from init' -l tasks -x -d 'Ranks on each node; else as many as GPUs'
complete -c dlrun -n '__fish_seen_subcommand_from init' -l cpus -x -d 'CPUs of each rank'
complete -c dlrun -n '__fish_seen_subcommand_from init' -l mem -x -d 'Memory of each node: 64G'
complete -c dlrun -n '__fish_seen_subcommand_from init' -l time -x -d 'The time limit: 1h30m (1h)'
complete -c dlrun -n '__fish_seen_subcommand_from init' -l partition -x -d 'The partition; else the cluster`s default'
complete -c dlrun -n '__fish_seen_subcommand_from init' -l account -x -d 'The account to charge'
complete -c dlrun -n '__fish_seen_subcommand_from init' -l image -x -d 'A container image'
complete -c dlrun -n '__fish_seen_subcommand_from init' -l runtime -x -d 'What runs the image: pyxis, enroot, apptainer; else the site`s'
complete -c dlrun -n '__fish_seen_subcommand_from init' -l module -x -d 'A module to load; repeatable'
complete -c dlrun -n '__fish_seen_subcommand_from init' -l conda -x -d 'A conda environment'
complete -c dlrun -n '__fish_seen_subcommand_from init' -l venv -rF -d 'A Python virtual environment'
complete -c dlrun -n '__fish_seen_subcommand_from init' -l preset -x -d 'How the program wants to be started (plain)'
complete -c dlrun -n '__fish_seen_subcommand_from init' -s o -l output -rF -d 'Write it to a file; else to standard output'
complete -c dlrun -n '__fish_seen_subcommand_from init' -l force -d 'Overwrite the file'
complete -c dlrun -n '__fish_seen_subcommand_from init' -s y -l yes -d 'Ask nothing'
complete -c dlrun -n '__fish_seen_subcommand_from doctor' -s h -l help -d 'Print this help message and exit'
complete -c dlrun -n '__fish_seen_subcommand_from doctor' -s M -l cluster -x -d 'Another cluster than this one: Slurm`s -M'
complete -c dlrun -n '__fish_seen_subcommand_from doctor' -l site-file -d 'Print the draft of a site file, and only that'
complete -c dlrun -n '__fish_seen_subcommand_from doctor' -l json -d 'Print a JSON object'
complete -c dlrun -n '__fish_seen_subcommand_from container' -s h -l help -d 'Print this help message and exit'
complete -c dlrun -n '__fish_seen_subcommand_from container' -l refresh -d 'Import it again though it is here'
complete -c dlrun -n '__fish_seen_subcommand_from container' -l json -d 'Print JSON'
complete -c dlrun -n '__fish_seen_subcommand_from container; and __fish_seen_subcommand_from import list' -F
complete -c dlrun -n '__fish_seen_subcommand_from container; and not __fish_seen_subcommand_from import list' -a 'import list'
complete -c dlrun -n '__fish_seen_subcommand_from bench' -s h -l help -d 'Print this help message and exit'
complete -c dlrun -n '__fish_seen_subcommand_from bench' -l nodes -x -d 'scaling: numbers of nodes, each a job (1,2,4)'
complete -c dlrun -n '__fish_seen_subcommand_from bench' -l local -x -d 'scaling: without Slurm, numbers of ranks on this machine'
complete -c dlrun -n '__fish_seen_subcommand_from bench' -l set -x -a '(__dlrun_set)' -d 'Override a key of the spec, e.g. resources.nodes=4; repeatable'
complete -c dlrun -n '__fish_seen_subcommand_from bench' -l runs -rF -d 'scaling: where run directories are made'
complete -c dlrun -n '__fish_seen_subcommand_from bench' -l backends -x -d 'Of mpi, gloo, shm and nccl (all; what is not here is left out)'
complete -c dlrun -n '__fish_seen_subcommand_from bench' -l workers -x -d 'Numbers of ranks (2,4,8)'
complete -c dlrun -n '__fish_seen_subcommand_from bench' -l sizes -x -d 'Bytes, as 8,64K,16M; 8..16M: each four times the last (8..16M)'
complete -c dlrun -n '__fish_seen_subcommand_from bench' -l operation -x -d 'all_reduce, broadcast, all_gather or reduce_scatter (all_reduce)'
complete -c dlrun -n '__fish_seen_subcommand_from bench' -l svg -rF -d 'Draw it into this file'
complete -c dlrun -n '__fish_seen_subcommand_from bench' -l json -d 'Print JSON'
complete -c dlrun -n '__fish_seen_subcommand_from bench; and __fish_seen_subcommand_from collectives scaling' -F
complete -c dlrun -n '__fish_seen_subcommand_from bench; and not __fish_seen_subcommand_from collectives scaling' -a 'collectives scaling'
complete -c dlrun -n '__fish_seen_subcommand_from completion' -s h -l help -d 'Print this help message and exit'
complete -c dlrun -n '__fish_seen_subcommand_from completion' -l list -x -d 'Print the names that a shell completes with: sites or presets'
complete -c dlrun -n '__fish_seen_subcommand_from completion; and not __fish_seen_subcommand_from bash zsh fish' -a 'bash zsh fish'
