#pragma once
// The backend "shm": ranks of one node that exchange data through shared memory.

#include <cstdint>
#include <memory>

#include "runtime/comm/communicator.h"
#include "runtime/comm/make_communicator.h"

namespace dlrun {

/// Connects the ranks of one node. Fails with kInvalid (ranks on several nodes), kUnavailable (no
/// store), kTimeout (names the missing ranks), kIo (not enough memory) or kPeer.
[[nodiscard]] Result<std::unique_ptr<Communicator>> make_shm_communicator(
    const CommunicatorOptions& options);

/// Does the same with a step counter that starts at first_step on every rank. Tests start just
/// below 2^32.
[[nodiscard]] Result<std::unique_ptr<Communicator>> make_shm_communicator(
    const CommunicatorOptions& options, std::uint64_t first_step);

}  // namespace dlrun
