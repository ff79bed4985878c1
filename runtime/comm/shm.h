#pragma once
// The backend "shm": ranks of one node that exchange data through shared memory.

#include <cstdint>
#include <memory>

#include "runtime/comm/communicator.h"
#include "runtime/comm/make_communicator.h"

namespace dlrun {

/// Connects the ranks of one node. Fails with kInvalid (ranks on several nodes), kUnavailable (no
/// store), kTimeout (the message lists the missing ranks), kIo (no socket, or not enough memory) or
/// kPeer (another rank failed).
[[nodiscard]] Result<std::unique_ptr<Communicator>> make_shm_communicator(
    const CommunicatorOptions& options);

/// Connects the ranks in the same way, but their counter of steps (shm_segment.h) starts at
/// steps_before, which must be equal on all ranks. Tests start just below 2^32, where a 32-bit
/// counter would wrap.
[[nodiscard]] Result<std::unique_ptr<Communicator>> make_shm_communicator(
    const CommunicatorOptions& options, std::uint64_t steps_before);

}  // namespace dlrun
