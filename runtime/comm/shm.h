#pragma once
// The ranks of one node, over memory that they share.

#include <memory>

#include "runtime/comm/communicator.h"
#include "runtime/comm/make_communicator.h"

namespace dlrun {

/// Fails with kInvalid (ranks on several nodes, no store), kTimeout (who did not come), kIo (no room), kPeer.
[[nodiscard]] Result<std::unique_ptr<Communicator>> make_shm_communicator(const CommunicatorOptions& options);

}  // namespace dlrun
