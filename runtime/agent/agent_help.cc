// The text of `dlrun-agent --help`.
#include "runtime/agent/agent_options.h"

namespace dlrun::agent {

const char* const kUsageText =
    R"(usage: dlrun-agent lead [options] -- srun ... dlrun-agent rank ... -- PROGRAM...
       dlrun-agent lead --local N [options] -- dlrun-agent rank ... -- PROGRAM...
       dlrun-agent lead --never-started CODE [options] -- FAILED-COMMAND...
       dlrun-agent lead [options] COMPONENT [+++ COMPONENT]...
           COMPONENT: --component NAME [options] -- SRUN-OPTIONS... dlrun-agent rank ... --
           PROGRAM...
       dlrun-agent rank [options] -- PROGRAM...
       dlrun-agent relay [--any-user]
       dlrun-agent sshd --check | --folder DIR

lead starts the ranks of a step, watches them and keeps the record of the run:
  --runs DIR              folder for the run directory if DLRUN_RUN is not set (runs)
  --name NAME             name of the run if DLRUN_RUN is not set (run)
  --local N               start N ranks on this machine, without Slurm
  --join-timeout SECONDS  time in which all ranks must connect to lead (600)
  --never-started CODE    start nothing; only record that the job script ended with the exit code
                          CODE, at FAILED-COMMAND, before it started the ranks
  --container-error TEXT  with --never-started: the container could not be created; TEXT is the
                          error message of the container tool
  --borrowed              the allocation belongs to another script or shell; never requeue it
  --forward-usr1          when a USR1 reaches the job, pass it on to the programs
  --hang-after SECONDS    end a step that has shown no progress for this time: no report, or no
                          output of a program that reports nothing
  --rehearse SECONDS      end the run as completed after its programs have run for this time
  --stop-early GOAL:NAME  end this point of a sweep if the number NAME in its reports is worse than
                          in the reports of the other points; GOAL is min or max
  --stop-after N          with --stop-early: the first epoch at which the point may end, or the
                          first step if it reports no epoch (1)
  --idle-gpu-after SECS   warn about GPUs that have not worked for this time
  --end-idle-gpus         with --idle-gpu-after: end a run with idle GPUs instead of only warning
  --retry MAX             largest number of restarts of the run, including requeues (0)
  --retry-on CAUSES       causes for a restart: timeout,preemption,node_failure,hang,oom,failure
                          (none)
  --no-progress N         do not restart after N attempts in a row that got no further (3)
  --chain N               after a timeout or a preemption, hand the run over to the next of its N
                          queued jobs instead of requeueing the job
  --exclude-bad-nodes     do not use nodes again that failed or whose rank hung
  --min-nodes N           after the loss of nodes, continue while at least N nodes of the
                          allocation are left
  --step-nodes N          use N nodes for every attempt; the other nodes of the allocation are spare
  --known-bad FILE        remember bad nodes in this file, which other runs read
  --known-bad-for SECONDS time for which a bad node is remembered (604800)
  --grow-memory FACTOR    after the run ran out of memory, requeue the job with FACTOR times as much
  --memory-limit MIB      the largest memory that --grow-memory requests
  --tensorboard           write the reports of rank 0 to an event file in the run's tensorboard/
  --mlflow URL            record the run on this MLflow server
  --mlflow-experiment NAME  experiment of that server
  --mlflow-secret NAME    name of the run's secret with the token for that server
  --notify OCCASIONS      send notices about these: started, completed, failed, cancelled,
                          restarted, hang; separated by commas, without spaces
  --webhook NAME          name of the run's secret with the address of a webhook that gets the
                          notices
  --notify-word WORD      word of a command that gets the notices; repeatable
  --signal-before SECONDS time between the signal USR1 and the time limit
options of one component of a job with several programs:
  --component NAME        its name
  --role ROLE             main or service (main); lead ends the services when all main components
                          have ended
  --component-nodes N     number of its nodes
  --component-ranks N     number of its ranks
  --component-first-node I  index of its first node in SLURM_JOB_NODELIST
  --het-group K           number of its part of a heterogeneous job; replaces
                          --component-first-node
  --after NAME            start it when this component is ready; repeatable
  --ready-http PATH       it is ready when a GET of PATH on rank 0's port gives a code from 200 to
                          299
  --ready-tcp             it is ready when rank 0's port accepts connections; without --ready-http
                          and --ready-tcp: when all its ranks have joined
  --ready-timeout SECONDS time in which it must be ready (600; without --ready-http and
                          --ready-tcp: the value of --join-timeout)
  --component-retry N     restarts of this service without the other components (0)
  --port-count N          number of ports that rank 0 reserves for {port} in PROGRAM: 0 or 1 (0)
rank runs the program of one task:
  --env NAME=TEMPLATE     variable for the program; dlrun fills in {rank} {world_size}
                          {local_rank} {local_world_size} {node_rank} {nnodes} {addr}
                          {master_addr} {master_port} {master} {port} {nproc_per_node} {addresses}
                          {role} {role_index} {tf_config} {run} {run_id} {attempt} {job}
  --word TEMPLATE         word before PROGRAM, such as the name of a launcher
  --nproc-per-node N      value of {nproc_per_node} (1)
  --roles ROLES           how many ranks have another role than worker: chief=1,ps=2,evaluator=1
  --secret NAME           variable for the program, from the secrets file of the run
  --preflight CHECKS      checks before the program starts: gpu,disk,clock,binding,fabric,nccl (or
                          rccl, gloo); a node that fails one ends the attempt
  --preflight-run LINE    shell line that checks the node; an exit code other than 0 makes the node
                          unfit
  --fabric FIGURES        figures of the site for the check fabric: infiniband_ports=4,
                          infiniband_gbps=200, gpu_link=nvlink, all_reduce=90, node_all_reduce=200
  --profile TOOL          run the program under nsys, py-spy or perf; result in the run's profile/
  --profile-ranks RANKS   ranks to profile, such as 0,8 (0)
  --profile-delay SECS    time from the start of the program to that of the profile (0)
  --profile-for SECS      length of the profile (to the end of the program)
  --tmpdir DIR            TMPDIR that the user asked for; if Slurm has replaced it by /tmp, but the
                          rank can write to DIR, the program gets DIR
  --stage JSON            data that the agent of each node's lowest rank copies to the node before
                          any program starts:
                          {"from": PATH, "to": "$VARIABLE/PATH", "unpack": true}
  --output JSON           folder on each node; the agent of the node's lowest rank copies its files
                          to PATH:
                          {"from": "$VARIABLE/PATH", "to": PATH, "every_s": N, "limit_s": N}
  --bundled               the program is dlrun's own: give it access to the store
relay connects `dlrun forward` to ports of the node, over standard input and output.
  --any-user              also connect to programs of other users of the node
sshd serves one ssh connection over standard input and output, with the node's own sshd:
  --folder DIR            folder of the keys that `dlrun ssh-config` made
  --check                 only print where the node's sshd is, as JSON
)";

}  // namespace dlrun::agent
