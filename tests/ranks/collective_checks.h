#pragma once
// The checks that every backend must pass at any number of ranks: results that are exactly those of
// closed forms, and errors that name the cause.

#include <string>
#include <vector>

#include "runtime/comm/communicator.h"

namespace dlrun {

/// Checks every operation, type and reduction at several counts against closed forms, and several
/// all-reduces that are started as requests and run at the same time. Element i of rank r is
/// (r + 1) * (i % 5 + 1), which every type represents exactly. Returns one sentence per failure.
[[nodiscard]] std::vector<std::string> check_collectives(Communicator& comm);

/// How the last rank's call differs from the others' call.
enum class Mismatch { kCount, kType, kReduction, kRoot, kOperation };
inline constexpr Mismatch kMismatches[] = {Mismatch::kCount, Mismatch::kType, Mismatch::kReduction,
                                           Mismatch::kRoot, Mismatch::kOperation};

/// Calls a collective in which the last rank differs from the others in `mismatch`. Each rank must
/// get a kPeer error that shows both calls and names the last rank, and check_results() must then
/// fail. Returns the failures. comm must have at least two ranks, and is unusable afterwards.
[[nodiscard]] std::vector<std::string> check_mismatch(Communicator& comm, Mismatch mismatch);

}  // namespace dlrun
