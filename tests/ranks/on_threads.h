#pragma once
// Ranks as threads of one process.

#include <functional>
#include <string>
#include <vector>

#include "runtime/bootstrap/store.h"
#include "runtime/comm/communicator.h"
#include "runtime/comm/make_communicator.h"

namespace dlrun {

/// Of one rank of a world on one node that meets over store.
[[nodiscard]] CommunicatorOptions options_of(int rank, int size, Store& store);

/// body on size threads, each with its own communicator of backend; every failure of every rank. change: of the options
/// of each.
[[nodiscard]] std::vector<std::string> on_threads(std::string_view backend, int size,
                                                  const std::function<std::vector<std::string>(Communicator&)>& body,
                                                  const std::function<void(CommunicatorOptions&)>& change = {});

/// Fails the test case once for each.
void check_none(const std::vector<std::string>& failures);

}  // namespace dlrun
