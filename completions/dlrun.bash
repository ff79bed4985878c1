# Made by `dlrun completion bash` from the tree of commands; a test keeps it equal.
# shellcheck shell=bash
_dlrun() {
  local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} command='' i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    [[ ${COMP_WORDS[i]} == -* ]] || { command=${COMP_WORDS[i]}; break; }
  done
  if [[ -z $command ]]; then
    mapfile -t COMPREPLY < <(compgen -W 'submit render check interactive run ls status logs wait cancel diff resubmit schema explain completion --help --version' -- "$word")
    return
  fi
  local options='' runs='' words=''
  case $command in
    submit) options='-h --help --set --runs --watch --dry-run --test-only --json' ;;
    render) options='-h --help --set --runs -o --output' ;;
    check) options='-h --help --set --runs --json' ;;
    interactive) options='-h --help --set --runs --dry-run' ;;
    run) options='-h --help --set --runs --dry-run --json' ;;
    ls) options='-h --help -a --all -n --limit --runs --json' ;;
    status) options='-h --help --json' runs=1 ;;
    logs) options='-h --help -f --follow --rank --attempt -n --tail' runs=1 ;;
    wait) options='-h --help --json' runs=1 ;;
    cancel) options='-h --help' runs=1 ;;
    diff) options='-h --help' runs=1 ;;
    resubmit) options='-h --help --watch --force --json' runs=1 ;;
    schema) options='-h --help' ;;
    explain) options='-h --help --set --json' ;;
    completion) options='-h --help' words='bash zsh fish' ;;
  esac
  case $command:$previous in
    submit:--runs | render:--runs | render:-o | render:--output | check:--runs | interactive:--runs | run:--runs | ls:--runs) mapfile -t COMPREPLY < <(compgen -f -- "$word"); return ;;
  esac
  if [[ $word == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word")
  elif [[ -n $words ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
  elif [[ -n $runs ]]; then
    local state=${XDG_STATE_HOME:-$HOME/.local/state}/dlrun/runs
    mapfile -t COMPREPLY < <(compgen -W "last $(command ls -t "$state" 2>/dev/null | head -n 200)" -- "$word")
  else
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
  fi
}
complete -o filenames -F _dlrun dlrun
