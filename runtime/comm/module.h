#pragma once
// Backends that need a library which may be missing (libmpi in a container image, libnccl on a node without GPUs) are
// modules: shared objects in ../lib/dlrun beside the program's folder, loaded when asked for. The program starts
// without those libraries, the backends are written against their ordinary headers, and a missing one is named by the
// loader.
//
// A module exports one object, `dlrun_comm_backend`, and is never unloaded.

#include <memory>
#include <string_view>

#include "common/result.h"
#include "runtime/comm/communicator.h"
#include "runtime/comm/make_communicator.h"

namespace dlrun {

struct CommBackend {
  const char* version = DLRUN_VERSION;  ///< of the build; program and module come from the same one
  /// Arguments of the communicator's calls need not be checked: GuardedCommunicator has done so.
  Result<std::unique_ptr<Communicator>> (*connect)(const CommunicatorOptions& options) = nullptr;
};

/// Loads dlrun-comm-NAME.so. Fails with kUnavailable: not in this installation, or which library it lacks.
[[nodiscard]] Result<const CommBackend*> load_comm_backend(std::string_view name);

}  // namespace dlrun

#define DLRUN_EXPORT_COMM_BACKEND(connect_function)                                                \
  extern "C" __attribute__((visibility("default"))) const ::dlrun::CommBackend dlrun_comm_backend; \
  const ::dlrun::CommBackend dlrun_comm_backend {                                                  \
    DLRUN_VERSION, connect_function                                                                \
  }
