#include "launcher/plan/packing.h"

#include <fmt/format.h>

#include "common/quoting.h"
#include "common/text.h"
#include "launcher/plan/script_text.h"
#include "launcher/spec/derived.h"
#include "launcher/spec/key_name.h"
#include "launcher/spec/value_syntax.h"

namespace dlrun {
namespace {

/// Returns `count` times a memory size of a checked spec: "16G" becomes "64G".
[[nodiscard]] std::string multiplied(const std::string& memory, std::int64_t count) {
  const auto unit_start = std::min(memory.find_first_not_of("0123456789"), memory.size());
  const auto amount = parse_int(memory.substr(0, unit_start));
  return fmt::format("{}{}", amount.value_or(0) * count, memory.substr(unit_start));
}

}  // namespace

JobSpec packed_spec(const JobSpec& spec, std::int64_t pack) {
  JobSpec packed = spec;
  Resources& r = packed.resources;
  const std::int64_t ranks = ranks_per_node(spec).value_or(1);
  r.nodes = NodeRange{1, 1};
  r.ntasks.reset();
  r.tasks_per_node = ranks * pack;
  if (r.gpus_per_node) r.gpus_per_node->count *= pack;
  if (r.mem) r.mem = multiplied(*r.mem, pack);
  return packed;
}

std::vector<PlannedVariable> slurm_variables_of_point(const LoadedSpec& loaded) {
  const Resources& r = loaded.spec.resources;
  std::vector<PlannedVariable> variables;
  const auto add = [&](std::string_view name, std::string value, std::string_view key) {
    variables.push_back({std::string(name), std::move(value), std::string(key)});
  };
  const std::string ranks = fmt::format("{}", ranks_per_node(loaded.spec).value_or(1));
  const std::string_view key = r.ntasks           ? "resources.ntasks"_key
                               : r.tasks_per_node ? "resources.tasks_per_node"_key
                                                  : "resources.gpus_per_node"_key;
  for (const char* name :
       {"SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE"})
    add(name, ranks, key);
  if (r.gpus_per_node && r.gpus_per_node->count > 0) {
    const std::string gpus = format_gpus(*r.gpus_per_node);
    if (loaded.site.gpu_style == "gres") {
      add("SLURM_GRES", "gpu:" + gpus, "resources.gpus_per_node"_key);
    } else {
      add("SLURM_GPUS_PER_NODE", gpus, "resources.gpus_per_node"_key);
    }
  }
  if (r.mem) add("SLURM_MEM_PER_NODE", *r.mem, "resources.mem"_key);
  return variables;
}

std::string packed_commands(const Packing& packing, std::string_view sweep_line) {
  bool has_memory = false;
  ScriptText text;
  text.line("#");
  text.line(fmt::format(
      "# Rendered by dlrun: a sweep. Each task of this array runs {} points side by side: it runs "
      "job.sh",
      packing.pack));
  text.line("# in the run directory of each point, which `dlrun submit` creates.");
  text.line("set -eo pipefail");
  text.line(sweep_line);
  text.line(fmt::format("dlrun_first=$((SLURM_ARRAY_TASK_ID * {0})) dlrun_end=$((dlrun_first + "
                        "{0}))",
                        packing.pack),
            "sweep.pack");
  text.line(fmt::format("((dlrun_end <= {0})) || dlrun_end={0}", packing.point_count));
  text.line("# The share of one point, which srun reads from these variables.");
  text.line("export SLURM_EXACT=1");
  text.line(fmt::format("export SLURM_CPUS_ON_NODE=$((SLURM_CPUS_ON_NODE / {}))", packing.pack));
  text.line("export SLURM_JOB_CPUS_PER_NODE=$SLURM_CPUS_ON_NODE");
  for (const PlannedVariable& variable : packing.point_variables) {
    has_memory = has_memory || variable.name == "SLURM_MEM_PER_NODE";
    text.line("export " + variable.name + "=" + shell_quote(variable.value), variable.comment);
  }
  if (!has_memory)
    text.line(
        "if [[ ! -v SLURM_MEM_PER_CPU && ! -v SLURM_MEM_PER_GPU ]]; then "
        "export SLURM_MEM_PER_NODE=0; fi");
  return text.take() + R"(dlrun_pids=()
trap 'kill -USR1 "${dlrun_pids[@]}" 2>/dev/null || true' USR1
trap 'kill -TERM "${dlrun_pids[@]}" 2>/dev/null || true' TERM
for ((dlrun_point = dlrun_first; dlrun_point < dlrun_end; dlrun_point++)); do
  export DLRUN_RUN=$dlrun_sweep/$dlrun_point
  if [[ -e $DLRUN_RUN/resubmitted ]]; then continue; fi # now a job of its own
  dlrun_log=$DLRUN_RUN/slurm-${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID.out
  bash "$DLRUN_RUN/job.sh" >>"$dlrun_log" 2>&1 &
  dlrun_pids+=("$!")
done
dlrun_code=0
for dlrun_pid in "${dlrun_pids[@]}"; do
  dlrun_point_code=0
  wait "$dlrun_pid" || dlrun_point_code=$?
  while kill -0 "$dlrun_pid" 2>/dev/null; do # a signal ended the wait
    dlrun_point_code=0
    wait "$dlrun_pid" || dlrun_point_code=$?
  done
  if ((dlrun_code == 0)); then dlrun_code=$dlrun_point_code; fi
done
exit "$dlrun_code"
)";
}

}  // namespace dlrun
