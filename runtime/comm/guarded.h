#pragma once
// A wrapper around every backend: it checks arguments, adds the call and the rank to error
// messages, and detects ranks that call different operations.
//
// For the first checked_calls calls the ranks compare a 64-bit fingerprint of (operation,
// reduction, type, count, root) with an all-reduce of the backend. If the fingerprints differ, the
// ranks gather the calls themselves, and every rank returns the same kPeer error. All ranks count
// calls alike, so all stop comparing at the same call.

#include <cstdint>
#include <memory>

#include "runtime/comm/communicator.h"

namespace dlrun {

/// Wraps `backend`, which it owns from then on.
[[nodiscard]] std::unique_ptr<Communicator> make_guarded(std::unique_ptr<Communicator> backend,
                                                         std::uint64_t checked_calls);

}  // namespace dlrun
