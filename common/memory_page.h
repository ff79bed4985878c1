#pragma once
// The size of a memory page.

#include <unistd.h>

#include <cstddef>

namespace dlrun {

/// Returns the size of a page in bytes: 4 KiB on x86, up to 64 KiB on ARM and POWER.
[[nodiscard]] inline std::size_t page_bytes() {
  return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace dlrun
