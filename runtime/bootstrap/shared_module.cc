#include "runtime/bootstrap/shared_module.h"

#include <filesystem>
#include <system_error>

#include <dlfcn.h>

namespace dlrun {

Result<const void*> load_module_object(std::string_view name, const char* object) {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return fail(Errc::kUnavailable, "cannot read /proc/self/exe: {}; is /proc mounted?", error.message());
  const auto path = program.parent_path().parent_path() / "lib" / "dlrun" / fmt::format("dlrun-{}.so", name);
  if (!std::filesystem::exists(path, error)) {
    return fail(Errc::kUnavailable, "this installation was built without {}: {} does not exist", name, path.string());
  }
  // RTLD_GLOBAL: plug-ins that Open MPI and libfabric load look up symbols of the libraries that a module brings.
  void* const handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) return fail(Errc::kUnavailable, "{} cannot be loaded: {}", name, ::dlerror());
  const void* const address = ::dlsym(handle, object);
  if (address == nullptr)
    return fail(Errc::kUnavailable, "{} is not a module of dlrun: {}", path.string(), ::dlerror());
  return address;
}

}  // namespace dlrun
