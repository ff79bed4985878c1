// Fuzzes reading an IDX file, plain or compressed, from the user's data folder.

#include "runtime/trainer/data/idx.h"

#include <sys/mman.h>
#include <unistd.h>

#include <fmt/format.h>

#include "common/files.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace dlrun;
  using namespace dlrun::trainer;
  constexpr std::size_t kLimitBytes = 1U << 20U;
  for (const std::size_t dimensions : {1U, 3U}) {
    if (const auto array = parse_idx("images", {data, data + size}, dimensions)) {
      std::size_t count = 1;
      for (const auto extent : array->sizes) count *= extent;
      fuzz::expect(array->values().size() == count,
                   "an array has as many values as its header states");
    }
  }
  const UniqueFd file(::memfd_create("idx", MFD_CLOEXEC));
  fuzz::expect(file.is_open() && ::write(file.get(), data, size) == static_cast<ssize_t>(size),
               "the file to read can be written");
  std::ignore = read_idx(fmt::format("/proc/self/fd/{}", file.get()), 3, kLimitBytes);
  return 0;
}
