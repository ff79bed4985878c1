#pragma once
// Parses and formats values that have a special syntax: time limits, durations, ages of runs,
// memory, GPUs, node counts, checkpoint intervals.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/result.h"
#include "launcher/spec/spec.h"

namespace dlrun {

/// Parses a time limit in Slurm's forms (minutes, MM:SS, HH:MM:SS, D-HH, D-HH:MM, D-HH:MM:SS) or in
/// dlrun's (90s, 10m, 1h30m, 2d). Returns seconds, and no value for UNLIMITED and INFINITE. Fails
/// with kInvalid above 10 years, and on zero, which Slurm reads as "no limit".
[[nodiscard]] Result<std::optional<std::int64_t>> parse_time_limit(std::string_view text);

/// Formats a time limit as Slurm does: HH:MM:SS, or D-HH:MM:SS from one day on.
[[nodiscard]] std::string format_time_limit(std::int64_t seconds);

/// Parses a duration and returns seconds. Accepts dlrun's forms (90s, 10m, 1h30m, 2d), and a number
/// alone, which is in seconds. Fails with kInvalid above 10 years.
[[nodiscard]] Result<std::int64_t> parse_duration(std::string_view text);

/// Parses the age of a run, such as 30d, 12h or 2w, and returns seconds. The unit is required,
/// because users could mean seconds or days by a number alone. Fails with kUsage for any other
/// text, and above 3650 days or 520 weeks.
[[nodiscard]] Result<std::int64_t> parse_age(std::string_view text);

/// Checks a memory size in Slurm's units: digits and at most one of K M G T, perhaps followed by B.
/// 0 means all memory of a node.
[[nodiscard]] Result<> check_memory(std::string_view text);

/// Returns a memory size in MiB, rounded up. A number without a unit is in MiB, as in Slurm.
/// Returns nullopt for 0 and for text that is not a memory size.
[[nodiscard]] std::optional<std::int64_t> memory_mib(std::string_view text);

/// Parses "2" or "2-4".
[[nodiscard]] Result<NodeRange> parse_nodes(std::string_view text);
[[nodiscard]] std::string format_nodes(const NodeRange& nodes);

/// Parses "4" or "TYPE:4".
[[nodiscard]] Result<Gpus> parse_gpus(std::string_view text);
[[nodiscard]] Result<> check_gpu_type(std::string_view type);
[[nodiscard]] std::string format_gpus(const Gpus& gpus);

/// Returns the number of GPUs per node that a gres text requests, such as "gpu:4" or
/// "gpu:a100:4,shard:2"; 0 if it requests none. "gpu" without a number is one GPU.
[[nodiscard]] std::int64_t gpus_in_gres(std::string_view gres);

/// Parses an interval between checkpoints. Returns the number of steps for "500 steps", and 0 for
/// "1 epoch" and "epoch", because the trainer's option uses 0 for an epoch. Fails with kInvalid for
/// any other text.
[[nodiscard]] Result<std::int64_t> parse_checkpoint_interval(std::string_view text);

}  // namespace dlrun
