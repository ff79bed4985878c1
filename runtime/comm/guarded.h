#pragma once
// A wrapper around every backend: it checks arguments, adds the call and the rank to error
// messages, and detects ranks that call different operations. If a call has failed in the backend
// or has a wrong argument, the wrapper abandons the backend.
//
// Before each of the first calls_to_check calls, an all-reduce of the backend compares the ranks'
// 64-bit fingerprints of (operation, reduction, type, count, root). If these differ, an all-gather
// collects the ranks' calls, and every rank returns the same kPeer error. The number of a call is
// equal on all ranks, so all ranks stop comparing at the same call.

#include <cstdint>
#include <memory>

#include "runtime/comm/communicator.h"

namespace dlrun {

/// Wraps `backend`; the result owns it.
[[nodiscard]] std::unique_ptr<Communicator> make_guarded(std::unique_ptr<Communicator> backend,
                                                         std::uint64_t calls_to_check);

}  // namespace dlrun
