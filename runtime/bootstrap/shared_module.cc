#include "runtime/bootstrap/shared_module.h"

#include <filesystem>
#include <string_view>
#include <system_error>

#include <dlfcn.h>

namespace dlrun {

Result<const void*> load_module_object(std::string_view name, const char* object) {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error)
    return fail(Errc::kUnavailable, "cannot read /proc/self/exe: {}; is /proc mounted?",
                error.message());
  // The module is beside the program if both were staged for a run, otherwise in the installation.
  const std::string file = fmt::format("dlrun-{}.so", name);
  auto path = program.parent_path() / file;
  if (!std::filesystem::exists(path, error))
    path = program.parent_path().parent_path() / "lib" / "dlrun" / file;
  const auto installed = path;
  // A user's program that links the installed library may be in any folder. The RUNPATH in its
  // file contains the folder of the modules.
  if (!std::filesystem::exists(path, error)) path = file;
  // RTLD_GLOBAL is needed because plug-ins of Open MPI and libfabric look up symbols of the
  // libraries that a module loads.
  void* const handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  const char* const why = handle == nullptr ? ::dlerror() : "";
  // dlerror() gives only a text, no error number. The text begins with the name of the file that
  // could not be opened: the module itself, or a library that the module needs.
  if (handle == nullptr && path == file && std::string_view(why).starts_with(file)) {
    return fail(Errc::kUnavailable, "this installation was built without {}: {} does not exist",
                name, installed.string());
  }
  if (handle == nullptr) return fail(Errc::kUnavailable, "{} cannot be loaded: {}", name, why);
  const void* const address = ::dlsym(handle, object);
  if (address == nullptr)
    return fail(Errc::kUnavailable, "{} is not a module of dlrun: {}", path.string(), ::dlerror());
  return address;
}

}  // namespace dlrun
