#pragma once
// What every backend needs and none should write: arguments are checked, errors say which call of
// which rank failed, and ranks that disagree about a call are named.
//
// For the first checked_calls calls the ranks compare a 64-bit fingerprint of (operation,
// reduction, type, count, root) by an all-reduce of the backend; when they differ, they gather the
// calls themselves and every rank returns the same kPeer error. The calls are counted alike on
// every rank, so all stop comparing at the same one.

#include <cstdint>
#include <memory>

#include "runtime/comm/communicator.h"

namespace dlrun {

[[nodiscard]] std::unique_ptr<Communicator> make_guarded(std::unique_ptr<Communicator> backend,
                                                         std::uint64_t checked_calls);

}  // namespace dlrun
