#pragma once
// Runs ranks as threads of one process, or as processes if one of them must die.

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/bootstrap/store.h"
#include "runtime/comm/communicator.h"
#include "runtime/comm/make_communicator.h"
#include "tests/contains.h"

namespace dlrun {

/// Returns the options of one rank. All ranks are on one node and find each other through `store`.
/// The timeout is 30 s, and the first 100 calls are compared between the ranks.
[[nodiscard]] CommunicatorOptions options_of(int rank, int size, Store& store);

/// Runs `body` on `size` threads, each with its own communicator of `backend`. Returns the failures
/// of all ranks; if a rank gets no communicator, the reason is its failure. change: modifies each
/// rank's options, on the rank's thread.
[[nodiscard]] std::vector<std::string> on_threads(
    std::string_view backend, int size,
    const std::function<std::vector<std::string>(Communicator&)>& body,
    const std::function<void(CommunicatorOptions&)>& change = {});

/// Runs body(rank, store) in `size` processes that share a store in `folder`. Returns their exit
/// codes: -1 for a killed process, 99 if the store cannot be opened.
[[nodiscard]] std::vector<int> in_processes(int size, const std::filesystem::path& folder,
                                            const std::function<int(int rank, Store& store)>& body);

/// Fails the test case once for each failure.
void expect_no_failures(const std::vector<std::string>& failures);

}  // namespace dlrun
