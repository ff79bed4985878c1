#pragma once
// `dlrun-trainer preflight` checks that collectives among the job's ranks work. Every rank's agent
// starts it before the user's program (health.preflight: nccl, rccl, gloo).

#include <chrono>
#include <cstdint>
#include <span>
#include <string>

#include "common/env.h"
#include "common/result.h"

namespace dlrun::trainer {

struct PreflightOptions {
  std::string backend = "nccl";      ///< for make_communicator()
  std::chrono::seconds timeout{60};  ///< for all ranks to connect, and for each collective
  /// The bus bandwidth that all-reduce must reach among all ranks, and among the ranks of a node;
  /// 0: not measured.
  std::int64_t all_reduce_gb_s = 0, node_all_reduce_gb_s = 0;
};

/// Parses the arguments after `preflight`. Fails with kUsage.
[[nodiscard]] Result<PreflightOptions> parse_preflight_options(std::span<const std::string> args);

/// Opens this rank's device (its GPU for the backend nccl, otherwise the CPU), connects to the
/// other ranks, all-reduces four MiB and compares every element with its expected value. Then
/// measures the speeds for which the options give a minimum. Reports `{"check":"device_open"}` to
/// the store once this rank has its device, and `{"check":"failed","words","is_own"}` after a
/// failure. "words" is the error's message. "is_own" is true if this rank, or the low speed of its
/// node, is the cause, and false for a failure between ranks. Fails with the reported error.
/// Without a store, no report is possible: fails with kUsage if DLRUN_STORE is not set, and
/// as open_store() does.
[[nodiscard]] Result<> run_preflight(const PreflightOptions& options, const Env& env);

}  // namespace dlrun::trainer
