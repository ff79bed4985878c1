#pragma once
// The object that the shared library of a backend (runtime/bootstrap/shared_module.h) exports under
// the name `dlrun_comm_backend`.

#include <memory>
#include <string_view>

#include "common/result.h"
#include "runtime/comm/communicator.h"
#include "runtime/comm/make_communicator.h"

namespace dlrun {

struct CommBackend {
  /// The version of dlrun, and a hash of the headers that program and module share.
  const char* interface = DLRUN_COMM_INTERFACE;
  /// Connects to the other ranks. The communicator need not check the arguments of its calls:
  /// GuardedCommunicator (guarded.h) checks them.
  Result<std::unique_ptr<Communicator>> (*connect)(const CommunicatorOptions& options) = nullptr;
};

/// Loads dlrun-comm-NAME.so. Fails with kUnavailable if the module cannot be loaded or is from
/// another build.
[[nodiscard]] Result<const CommBackend*> load_comm_backend(std::string_view name);

}  // namespace dlrun

#define DLRUN_EXPORT_COMM_BACKEND(connect_function)                                                \
  extern "C" __attribute__((visibility("default"))) const ::dlrun::CommBackend dlrun_comm_backend; \
  const ::dlrun::CommBackend dlrun_comm_backend {                                                  \
    DLRUN_COMM_INTERFACE, connect_function                                                         \
  }
