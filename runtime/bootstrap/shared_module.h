#pragma once
// Parts that need a library which may be missing (libmpi and libpmix in a container image, libnccl
// and CUDA on a node without GPUs) are modules: shared objects beside the program (as staged for a
// run) or in ../lib/dlrun (as installed), loaded when asked for. The program starts without those
// libraries, the parts are written against their ordinary headers, and a missing one is named by
// the loader.

#include <string_view>

#include "common/result.h"

namespace dlrun {

/// The address of an exported object of lib/dlrun/dlrun-NAME.so, which is loaded once and never
/// unloaded. Fails with kUnavailable: not in this installation, which library it lacks, or no such
/// object.
[[nodiscard]] Result<const void*> load_module_object(std::string_view name, const char* object);

}  // namespace dlrun
