#pragma once
// Checks a node before the job's programs start (health.preflight). The rank's agent runs the
// checks before it sends its hello to lead, so that a node with a lost GPU or a full disk is
// reported before any program starts.

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/env.h"
#include "common/result.h"
#include "runtime/agent/fabric_check.h"
#include "runtime/agent/gpu_tool.h"
#include "runtime/bootstrap/world.h"

namespace dlrun::agent {

/// The checks to run.
struct NodeChecks {
  /// This rank's GPUs answer and have no uncorrected memory errors. rocm-smi does not report such
  /// errors.
  bool gpu = false;
  bool disk = false;        ///< a file can be written in the run's directory, $TMPDIR and /dev/shm
  bool clock = false;       ///< the node's clock agrees with lead's; see clock_problem()
  bool binding = false;     ///< this rank may use CPUs near its GPUs (binding_check.h)
  bool fabric = false;      ///< InfiniBand and NVLink are as expected (fabric_check.h)
  FabricFigures figures{};  ///< what the site expects for `fabric`
  std::vector<std::string> user_lines{};  ///< the user's shell lines; each runs once on each node
  /// The backend with which all ranks try a collective (collective_check.h): "nccl", "rccl" or
  /// "gloo"; empty: none.
  std::string collective{};

  /// Returns true if there is a check besides that of collectives.
  [[nodiscard]] bool has_check_of_node() const {
    return gpu || disk || clock || binding || fabric || !user_lines.empty();
  }
  /// Parses the names of checks, such as "gpu,disk,clock,nccl", in any order. The word `run` is
  /// accepted and switches on no check: the user's shell lines come from the options
  /// --preflight-run. Fails with kUsage for an unknown check, and if more than one of nccl, rccl
  /// and gloo is given.
  [[nodiscard]] static Result<NodeChecks> parse(std::string_view words);
};

/// Returns a sentence for each failed check. The sentence starts with the name of the check. Blocks
/// on the tool of the GPUs (at most 60 s for each check that asks it), on the file systems, and on
/// the user's own checks (at most two minutes for each). Only the first rank of a node checks the
/// disks and the fabric, and runs the user's checks. A GPU is checked by the rank that also
/// measures how busy it is: the rank that owns it, or the first of several ranks that see the same
/// GPUs (gpu_scope()). Leaves out the clock, which lead checks, and the collective
/// (collective_check.h).
[[nodiscard]] std::vector<std::string> node_problems(const NodeChecks& checks, const Env& env,
                                                     const World& world);

/// The reason why a check of GPUs fails on a node without their tools.
inline constexpr std::string_view kNoGpuTool =
    "none of nvidia-smi, amd-smi and rocm-smi is on the PATH";

/// Runs the tool and returns its output. Fails as run_command() does, and with kUnavailable if the
/// tool ends with another code than 0.
[[nodiscard]] Result<std::string> ask_gpu_tool(const Env& env, const GpuTool& tool,
                                               const std::vector<std::string>& arguments);

/// Runs a shell line of the user in the job's environment, without the secret of the attempt.
/// Returns a sentence if the line cannot be run, ends with another code than 0, or does not end
/// within the limit. If the line has ended, the sentence quotes the last line of its output.
[[nodiscard]] std::optional<std::string> user_check_problem(
    const std::string& line, const Env& env,
    std::chrono::milliseconds limit = std::chrono::minutes(2));

/// Returns the problems of the visible GPUs; empty if there are none. csv: lines of `index, uuid,
/// uncorrected errors` as nvidia-smi prints them with csv,noheader,nounits. visible:
/// CUDA_VISIBLE_DEVICES; nullopt: all GPUs.
[[nodiscard]] std::vector<std::string> gpu_problems(std::string_view csv,
                                                    std::optional<std::string_view> visible);

/// Writes and removes a file of four MiB in folder. Returns a sentence, "disk: ...", if the file
/// cannot be created or written.
[[nodiscard]] std::optional<std::string> disk_problem(const std::string& folder);

/// Returns a problem if the Unix times of a node and of lead differ by more than five seconds. A
/// larger difference can make files look newer than they are, and certificates and tokens invalid.
[[nodiscard]] std::optional<std::string> clock_problem(std::chrono::milliseconds node,
                                                       std::chrono::milliseconds lead);

}  // namespace dlrun::agent
