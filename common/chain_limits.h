#pragma once
// The limits of retry.chain, the number of jobs that work on a run one after another.

namespace dlrun {

inline constexpr int kFewestChainJobs = 2;
/// Bounds the number of journals that a reader of a run opens.
inline constexpr int kMostChainJobs = 100;

}  // namespace dlrun
