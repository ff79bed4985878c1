# Made by `dlrun completion fish` from the tree of commands; a test keeps it equal.
function __dlrun_runs
    set -l state $HOME/.local/state
    set -q XDG_STATE_HOME; and set state $XDG_STATE_HOME
    echo last
    command ls -t $state/dlrun/runs 2>/dev/null
end

complete -c dlrun -f
complete -c dlrun -n __fish_use_subcommand -a submit -d 'Check, render, record and submit an experiment, or a job script'
complete -c dlrun -n __fish_use_subcommand -a render -d 'Print the job script; plain `sbatch` takes it'
complete -c dlrun -n __fish_use_subcommand -a check -d 'Say all that is wrong, and whether Slurm would take it'
complete -c dlrun -n __fish_use_subcommand -a interactive -d 'A shell on the first node, in the job`s environment and container'
complete -c dlrun -n __fish_use_subcommand -a run -d 'Run the experiment on this machine, without Slurm'
complete -c dlrun -n __fish_use_subcommand -a ls -d 'List your runs, newest first'
complete -c dlrun -n __fish_use_subcommand -a status -d 'State, progress and results of a run; who failed first'
complete -c dlrun -n __fish_use_subcommand -a logs -d 'Print a run`s output'
complete -c dlrun -n __fish_use_subcommand -a wait -d 'Wait until runs have ended; exit with 0 or 5'
complete -c dlrun -n __fish_use_subcommand -a cancel -d 'End runs'
complete -c dlrun -n __fish_use_subcommand -a schema -d 'Print the JSON Schema of a spec, with which editors complete and check it'
complete -c dlrun -n __fish_use_subcommand -a explain -d 'Say what a key means, or what a spec`s values are and where each came from'
complete -c dlrun -n __fish_use_subcommand -a completion -d 'Print a completion script'
complete -c dlrun -n '__fish_seen_subcommand_from submit' -s h -l help -d 'Print this help message and exit'
complete -c dlrun -n '__fish_seen_subcommand_from submit' -l set -x -d 'Override a key of the spec, e.g. resources.nodes=4; repeatable'
complete -c dlrun -n '__fish_seen_subcommand_from submit' -l runs -rF -d 'Where run directories are made; else $DLRUN_RUNS, the site`s, ./runs'
complete -c dlrun -n '__fish_seen_subcommand_from submit' -l watch -d 'Follow the log until the job ends; exit with 0 or 5'
complete -c dlrun -n '__fish_seen_subcommand_from submit' -l dry-run -d 'Print what would be done; write and submit nothing'
complete -c dlrun -n '__fish_seen_subcommand_from submit' -l test-only -d 'Ask Slurm whether and when it would run; submit nothing'
complete -c dlrun -n '__fish_seen_subcommand_from submit' -l json -d 'Print a JSON object'
complete -c dlrun -n '__fish_seen_subcommand_from submit' -F
complete -c dlrun -n '__fish_seen_subcommand_from render' -s h -l help -d 'Print this help message and exit'
complete -c dlrun -n '__fish_seen_subcommand_from render' -l set -x -d 'Override a key of the spec, e.g. resources.nodes=4; repeatable'
complete -c dlrun -n '__fish_seen_subcommand_from render' -l runs -rF -d 'Where run directories are made; else $DLRUN_RUNS, the site`s, ./runs'
complete -c dlrun -n '__fish_seen_subcommand_from render' -s o -l output -rF -d 'Write it to a file instead'
complete -c dlrun -n '__fish_seen_subcommand_from render' -F
complete -c dlrun -n '__fish_seen_subcommand_from check' -s h -l help -d 'Print this help message and exit'
complete -c dlrun -n '__fish_seen_subcommand_from check' -l set -x -d 'Override a key of the spec, e.g. resources.nodes=4; repeatable'
complete -c dlrun -n '__fish_seen_subcommand_from check' -l runs -rF -d 'Where run directories are made; else $DLRUN_RUNS, the site`s, ./runs'
complete -c dlrun -n '__fish_seen_subcommand_from check' -l json -d 'Print a JSON object'
complete -c dlrun -n '__fish_seen_subcommand_from check' -F
complete -c dlrun -n '__fish_seen_subcommand_from interactive' -s h -l help -d 'Print this help message and exit'
complete -c dlrun -n '__fish_seen_subcommand_from interactive' -l set -x -d 'Override a key of the spec, e.g. resources.nodes=4; repeatable'
complete -c dlrun -n '__fish_seen_subcommand_from interactive' -l runs -rF -d 'Where run directories are made; else $DLRUN_RUNS, the site`s, ./runs'
complete -c dlrun -n '__fish_seen_subcommand_from interactive' -l dry-run -d 'Print what would be done'
complete -c dlrun -n '__fish_seen_subcommand_from interactive' -F
complete -c dlrun -n '__fish_seen_subcommand_from run' -s h -l help -d 'Print this help message and exit'
complete -c dlrun -n '__fish_seen_subcommand_from run' -l set -x -d 'Override a key of the spec, e.g. resources.nodes=4; repeatable'
complete -c dlrun -n '__fish_seen_subcommand_from run' -l runs -rF -d 'Where run directories are made; else $DLRUN_RUNS, the site`s, ./runs'
complete -c dlrun -n '__fish_seen_subcommand_from run' -l dry-run -d 'Print the script; write and start nothing'
complete -c dlrun -n '__fish_seen_subcommand_from run' -l json -d 'Print a JSON object at the end'
complete -c dlrun -n '__fish_seen_subcommand_from run' -F
complete -c dlrun -n '__fish_seen_subcommand_from ls' -s h -l help -d 'Print this help message and exit'
complete -c dlrun -n '__fish_seen_subcommand_from ls' -s a -l all -d 'All of them, not only the newest'
complete -c dlrun -n '__fish_seen_subcommand_from ls' -s n -l limit -x -d 'How many (20)'
complete -c dlrun -n '__fish_seen_subcommand_from ls' -l runs -rF -d 'Those in this directory; adds to the index what it lacks'
complete -c dlrun -n '__fish_seen_subcommand_from ls' -l json -d 'Print a JSON array'
complete -c dlrun -n '__fish_seen_subcommand_from status' -s h -l help -d 'Print this help message and exit'
complete -c dlrun -n '__fish_seen_subcommand_from status' -l json -d 'Print a JSON object'
complete -c dlrun -n '__fish_seen_subcommand_from status' -a '(__dlrun_runs)'
complete -c dlrun -n '__fish_seen_subcommand_from logs' -s h -l help -d 'Print this help message and exit'
complete -c dlrun -n '__fish_seen_subcommand_from logs' -s f -l follow -d 'Go on until the run ends'
complete -c dlrun -n '__fish_seen_subcommand_from logs' -l rank -x -d 'What this rank printed, instead of the job`s output'
complete -c dlrun -n '__fish_seen_subcommand_from logs' -l attempt -x -d 'With --rank: of this attempt, instead of the latest'
complete -c dlrun -n '__fish_seen_subcommand_from logs' -s n -l tail -x -d 'Only the last N lines of what is there'
complete -c dlrun -n '__fish_seen_subcommand_from logs' -a '(__dlrun_runs)'
complete -c dlrun -n '__fish_seen_subcommand_from wait' -s h -l help -d 'Print this help message and exit'
complete -c dlrun -n '__fish_seen_subcommand_from wait' -l json -d 'Print a JSON array of their states'
complete -c dlrun -n '__fish_seen_subcommand_from wait' -a '(__dlrun_runs)'
complete -c dlrun -n '__fish_seen_subcommand_from cancel' -s h -l help -d 'Print this help message and exit'
complete -c dlrun -n '__fish_seen_subcommand_from cancel' -a '(__dlrun_runs)'
complete -c dlrun -n '__fish_seen_subcommand_from schema' -s h -l help -d 'Print this help message and exit'
complete -c dlrun -n '__fish_seen_subcommand_from explain' -s h -l help -d 'Print this help message and exit'
complete -c dlrun -n '__fish_seen_subcommand_from explain' -l set -x -d 'Override a key of the spec, e.g. resources.nodes=4; repeatable'
complete -c dlrun -n '__fish_seen_subcommand_from explain' -l json -d 'Print a JSON array'
complete -c dlrun -n '__fish_seen_subcommand_from explain' -F
complete -c dlrun -n '__fish_seen_subcommand_from completion' -s h -l help -d 'Print this help message and exit'
complete -c dlrun -n '__fish_seen_subcommand_from completion' -a 'bash zsh fish'
