#pragma once
// Modules are the parts of the program that need a library which may be missing, such as libmpi and
// libpmix in a container image, or libnccl and CUDA on a node without GPUs. A module is a shared
// object and is loaded on demand. The module is beside the program (when staged for a run), in
// ../lib/dlrun (when installed), or on the RUNPATH of a user's own program.
//
// The program therefore starts without these libraries. The modules use the libraries' ordinary
// headers. If a library is missing, the loader's message contains the name of this library.

#include <string_view>

#include "common/result.h"

namespace dlrun {

/// Loads the module dlrun-NAME.so and returns the address of an object that it exports. The module
/// is never unloaded. Fails with kUnavailable if the module is not installed, if a library is
/// missing (the message contains its name), if the module cannot be loaded for another reason, if
/// the module exports no such object, or if /proc/self/exe cannot be read.
[[nodiscard]] Result<const void*> load_module_object(std::string_view name, const char* object);

}  // namespace dlrun
