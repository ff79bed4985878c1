#pragma once
// What every backend must do, at any number of ranks: results that a formula gives, and errors that
// name what was wrong.

#include <string>
#include <vector>

#include "runtime/comm/communicator.h"

namespace dlrun {

/// Every operation, type and reduction at several counts, blocking and as requests, against closed
/// forms. Element i of rank r holds (r + 1) * (i % 5 + 1), which every type represents exactly. The
/// failures' sentences; none when all is right.
[[nodiscard]] std::vector<std::string> check_collectives(Communicator& comm);

/// One way in which ranks may disagree about a call.
enum class Mismatch { kCount, kType, kReduction, kRoot, kOperation };
inline constexpr Mismatch kMismatches[] = {Mismatch::kCount, Mismatch::kType, Mismatch::kReduction,
                                           Mismatch::kRoot, Mismatch::kOperation};

/// The last rank deviates from the others. Each rank must get a kPeer error that shows both calls
/// and names the last rank. comm has two ranks or more, and is of no further use.
[[nodiscard]] std::vector<std::string> check_mismatch(Communicator& comm, Mismatch mismatch);

}  // namespace dlrun
