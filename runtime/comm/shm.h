#pragma once
// The ranks of one node, over memory that they share.

#include <cstdint>
#include <memory>

#include "runtime/comm/communicator.h"
#include "runtime/comm/make_communicator.h"

namespace dlrun {

/// Fails with kInvalid (ranks on several nodes, no store), kTimeout (who did not come), kIo (no
/// room), kPeer.
[[nodiscard]] Result<std::unique_ptr<Communicator>> make_shm_communicator(
    const CommunicatorOptions& options);

/// Makes a communicator whose count of steps begins at first_step on every rank. Tests start where
/// 32 bits end.
[[nodiscard]] Result<std::unique_ptr<Communicator>> make_shm_communicator(
    const CommunicatorOptions& options, std::uint64_t first_step);

}  // namespace dlrun
