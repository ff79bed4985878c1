#pragma once
// health.preflight: is this node fit for the job? Asked by the rank agent before it says hello, so
// that a node whose GPU is gone or whose disk is full is named at once, and no program starts
// beside it.

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/env.h"
#include "common/result.h"
#include "runtime/bootstrap/world.h"

namespace dlrun::agent {

/// What is to be checked.
struct NodeChecks {
  bool gpu = false;  ///< the GPUs that this rank sees answer, and have no uncorrected memory errors
  bool disk = false;         ///< the run's directory, $TMPDIR (/tmp) and /dev/shm take a file
  bool clock = false;        ///< the node's clock is the leader's, see clock_problem()
  std::string collective{};  ///< "nccl", "gloo": the ranks try a collective over it
                             ///< (collective_check.h); empty: none

  /// Something is to be checked before the hello.
  [[nodiscard]] bool any() const { return gpu || disk || clock; }
  /// "gpu,disk,clock,nccl" in any order. Fails with kUsage for another word, and for both of nccl
  /// and gloo.
  [[nodiscard]] static Result<NodeChecks> parse(std::string_view words);
};

/// All that makes the node unfit, a sentence each that starts with the check's name. Takes as long
/// as nvidia-smi and the file systems take, nvidia-smi 60 s at most. The disks are the first rank's
/// of a node to check, GPUs everybody's own.
[[nodiscard]] std::vector<std::string> node_problems(const NodeChecks& checks, const Env& env,
                                                     const World& world);

/// Lines of `index, uuid, uncorrected errors` in nvidia-smi's csv,noheader,nounits, against what
/// CUDA_VISIBLE_DEVICES names (nothing: all). Empty where all is well.
[[nodiscard]] std::vector<std::string> gpu_problems(std::string_view csv,
                                                    std::optional<std::string_view> visible);

/// Why folder does not take a file of four MiB, if it does not: "disk: ...". Nothing is left there.
[[nodiscard]] std::optional<std::string> disk_problem(const std::string& folder);

/// Both in Unix time. Beyond five seconds files look newer than they are, and certificates and
/// tokens fail.
[[nodiscard]] std::optional<std::string> clock_problem(std::chrono::milliseconds here,
                                                       std::chrono::milliseconds leader);

}  // namespace dlrun::agent
