# shellcheck shell=bash
# Functions of the tests of `dlrun forward` and `dlrun ssh-config`. $dir is the test's directory.
#
#   submit_servers [later]     submits a job of two nodes with a web server on port 8888 of each
#                              node, and waits until it runs. With `later` the servers start once
#                              the file `serve` exists. Sets job
#   start_forward ARGUMENTS..  starts dlrun forward in the background, with the variables of the
#                              array forward_env, and waits until it serves. Its output is in
#                              forward.out and forward.err. Sets forward_pid, the process id of
#                              dlrun; as_user_pid, the process to wait for (as_user); and address,
#                              the first address that dlrun prints
#   wait_for_forward           waits for the end of dlrun forward; sets code to its exit code and
#                              prints forward.err
#   fetch ARGUMENTS...         runs curl without the proxies of the environment
#   no_connection_is_left      succeeds if the job has only the step of its ranks, and no process of
#                              a forwarding or of an ssh connection exists on any node
#   write_ssh_block ARGUMENTS...
#                              writes the output of dlrun ssh-config to the file config; sets host
#   ssh_to COMMAND...          runs ssh with this block as its only configuration

# shellcheck disable=SC2154 # the test sets dir
submit_servers() {
    cat >"$dir/serve.py" <<'PY'
import http.server
import os
import time

while not os.path.exists("serve"):
    time.sleep(0.05)
os.chdir("www")
server = http.server.ThreadingHTTPServer(("127.0.0.1", 8888), http.server.SimpleHTTPRequestHandler)
open(f"up-{os.environ['DLRUN_NODE_RANK']}", "w").close()
server.serve_forever()
PY
    cat >"$dir/serve.yaml" <<'YAML'
name: serve
resources: {nodes: 2, tasks_per_node: 1, cpus_per_task: 2, time: 5m}
environment:
  vars: {GREETING: "it's; $(id) \"here\""}
  setup: echo set up on $(hostname)
launch: {preset: plain, command: [python3, serve.py]}
YAML
    as_user mkdir "$dir/www"
    echo "<h1>a page of the job</h1>" >"$dir/www/index.html"
    [[ ${1:-} == later ]] || touch "$dir/serve"
    dl submit serve.yaml
    job=$(dl status last --json | jq -r .job)
    [[ ${1:-} == later ]] || wait_until 30 servers_are_up
    wait_until 30 is_running
}
servers_are_up() { [[ -e $dir/www/up-0 && -e $dir/www/up-1 ]]; }
is_running() { [[ $(dl status last --json | jq -r .state) == running ]]; }

forward_env=()
# shellcheck disable=SC2034 # the tests use address
start_forward() {
    rm -f "$dir"/forward.*
    as_user env --chdir="$dir" "${forward_env[@]}" bash -c 'echo $$ >forward.pid &&
        exec dlrun forward "$@" >forward.out 2>forward.err' - "$@" </dev/null 3>&- &
    as_user_pid=$!
    wait_until 30 test -s "$dir/forward.out"
    forward_pid=$(<"$dir/forward.pid")
    address=$(sed 's/ is port .*//;q' "$dir/forward.out")
}
# shellcheck disable=SC2034 # the tests use code
wait_for_forward() {
    code=0
    wait "$as_user_pid" || code=$?
    cat "$dir/forward.err"
}
fetch() { curl -sS --noproxy '*' --max-time 60 "$@"; }

no_connection_is_left() {
    squeue -h -s -j "$job" -o %i
    [[ $(squeue -h -s -j "$job" -o %i | grep -cv -e batch -e extern) == 1 ]] || return 1
    ! pgrep -u "$DLRUN_TESTBED_USER" -a \
        -f 'dlrun-agent (relay|sshd)|dlrun (forward|ssh-config)|sshd -i|sshd: |sshd-session'
}
job_is_gone() { [[ -z $(squeue -h -j "$job" 2>/dev/null) ]]; }

write_ssh_block() {
    as_user env --chdir="$dir" bash -c 'dlrun ssh-config "$@" >config 2>config.err' - "$@" ||
        { cat "$dir/config.err" && return 1; }
    host=$(sed -n 's/^Host //p' "$dir/config")
}
ssh_to() { as_user ssh -F "$dir/config" "$host" "$@"; }
