#include "runtime/comm/module.h"

#include <filesystem>
#include <system_error>

#include <dlfcn.h>

namespace dlrun {

Result<const CommBackend*> load_comm_backend(std::string_view name) {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return fail(Errc::kUnavailable, "cannot read /proc/self/exe: {}; is /proc mounted?", error.message());
  const auto path = program.parent_path().parent_path() / "lib" / "dlrun" / fmt::format("dlrun-comm-{}.so", name);
  if (!std::filesystem::exists(path, error)) {
    return fail(Errc::kUnavailable, "this installation was built without the {0} backend: {1} does not exist", name,
                path.string());
  }
  // RTLD_GLOBAL: plug-ins that Open MPI and libfabric load look up symbols of the libraries that the module brings.
  void* const handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) return fail(Errc::kUnavailable, "the {} backend cannot be loaded: {}", name, ::dlerror());
  const auto* backend = static_cast<const CommBackend*>(::dlsym(handle, "dlrun_comm_backend"));
  if (backend == nullptr)
    return fail(Errc::kUnavailable, "{} is not a backend of dlrun: {}", path.string(), ::dlerror());
  if (std::string_view(backend->version) != DLRUN_VERSION) {
    return fail(Errc::kUnavailable, "{} belongs to dlrun {}, this program to {}; install both from one build",
                path.string(), backend->version, DLRUN_VERSION);
  }
  return backend;
}

}  // namespace dlrun
