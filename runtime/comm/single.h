#pragma once
// The backend "single": a world of one rank, where collectives have nothing to exchange.

#include <memory>

#include "runtime/comm/communicator.h"
#include "runtime/comm/make_communicator.h"

namespace dlrun {

/// Returns the communicator of a world of one rank. Fails with kInvalid unless options.world.size
/// is 1.
[[nodiscard]] Result<std::unique_ptr<Communicator>> make_single_communicator(
    const CommunicatorOptions& options);

}  // namespace dlrun
