#include "runtime/comm/module.h"

#include "runtime/bootstrap/shared_module.h"

namespace dlrun {

Result<const CommBackend*> load_comm_backend(std::string_view name) {
  DLRUN_TRY_ASSIGN(const auto object,
                   load_module_object(fmt::format("comm-{}", name), "dlrun_comm_backend"));
  const auto* backend = static_cast<const CommBackend*>(object);
  if (std::string_view(backend->interface) != DLRUN_COMM_INTERFACE) {
    return fail(Errc::kUnavailable,
                "the module comm-{} was built for dlrun {}, this program for {}; install both from "
                "one build",
                name, backend->interface, DLRUN_COMM_INTERFACE);
  }
  return backend;
}

}  // namespace dlrun
