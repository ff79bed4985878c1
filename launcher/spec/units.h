#pragma once
// The small languages inside values: time limits, memory, GPUs, node counts, checkpoint intervals.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/result.h"
#include "launcher/spec/spec.h"

namespace dlrun {

/// A time limit in Slurm's forms (minutes, MM:SS, HH:MM:SS, D-HH, D-HH:MM, D-HH:MM:SS) or ours
/// (90s, 10m, 1h30m, 2d), in seconds; no value for UNLIMITED and INFINITE. At most 10 years; zero,
/// which Slurm reads as no limit, is refused.
[[nodiscard]] Result<std::optional<std::int64_t>> parse_time_limit(std::string_view text);

/// Slurm's form: HH:MM:SS, with days D-HH:MM:SS.
[[nodiscard]] std::string format_time_limit(std::int64_t seconds);

/// Seconds of a duration: a bare number is seconds; else our forms.
[[nodiscard]] Result<std::int64_t> parse_duration(std::string_view text);

/// Memory in Slurm's units: digits and at most one of K M G T; 0 is all of a node's.
[[nodiscard]] Result<> check_memory(std::string_view text);

/// The same in MiB, rounded up; Slurm's unit where none is given is M. Nothing for what is not a
/// memory size, and for 0.
[[nodiscard]] std::optional<std::int64_t> memory_mib(std::string_view text);

/// "2" or "2-4".
[[nodiscard]] Result<NodeRange> parse_nodes(std::string_view text);
[[nodiscard]] std::string format_nodes(const NodeRange& nodes);

/// "4" or "TYPE:4".
[[nodiscard]] Result<Gpus> parse_gpus(std::string_view text);
[[nodiscard]] Result<> check_gpu_type(std::string_view type);
[[nodiscard]] std::string format_gpus(const Gpus& gpus);

/// How many GPUs a raw gres text asks for per node: "gpu:4", "gpu:a100:4,shard:2"; 0 when it names
/// none.
[[nodiscard]] std::int64_t gpus_in_gres(std::string_view gres);

/// Steps of "500 steps"; 0 for "1 epoch".
[[nodiscard]] Result<std::int64_t> parse_interval(std::string_view text);

}  // namespace dlrun
