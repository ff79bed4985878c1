#include "runtime/bootstrap/file_store.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <span>
#include <thread>

#include "common/files.h"
#include "common/text.h"

namespace dlrun {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

Result<std::unique_ptr<FileStore>> FileStore::open(std::filesystem::path folder) {
  if (!folder.is_absolute()) {
    return fail(
        Errc::kInvalid,
        "store: file:{} is not an absolute path; ranks may have different working directories",
        folder.string());
  }
  if (auto made = make_private_directories(folder); !made) return within("store", made.error());
  return std::unique_ptr<FileStore>(new FileStore(std::move(folder)));
}

Result<std::filesystem::path> FileStore::path_of(std::string_view key) const {
  // The key in hex, twice as long, stays below NAME_MAX.
  constexpr std::size_t kLongestKeyBytes = 120;
  if (key.empty() || key.size() > kLongestKeyBytes) {
    return fail(Errc::kInvalid, "store: the key '{}' has {} bytes; 1 to {} are allowed",
                printable(key), key.size(), kLongestKeyBytes);
  }
  return folder_ / to_hex(std::span(reinterpret_cast<const std::uint8_t*>(key.data()), key.size()));
}

Result<> FileStore::put(std::string_view key, std::string_view value) {
  if (value.size() > kStoreValueLimitBytes) {
    return fail(Errc::kInvalid, "store: the value of '{}' has {} bytes, at most {} are allowed",
                printable(key), value.size(), kStoreValueLimitBytes);
  }
  const auto path = path_of(key);
  if (!path) return tl::unexpected(path.error());
  // Uses link(2) instead of rename(2), which would replace a value that another rank put meanwhile.
  const std::filesystem::path temporary =
      folder_ / fmt::format(".{}-{}", ::getpid(), random_hex(8));
  DLRUN_TRY(create_file_exclusive(temporary, value));
  const int linked = ::link(temporary.c_str(), path->c_str());
  const int error = errno;
  ::unlink(temporary.c_str());
  if (linked == 0) return {};
  if (error != EEXIST) return fail(Errc::kIo, "store: {}: {}", path->string(), errno_text(error));
  DLRUN_TRY_ASSIGN(const auto old, read_file(*path, kStoreValueLimitBytes));
  if (old != value)
    return fail(Errc::kRefused, "store: '{}' holds another value already", printable(key));
  return {};
}

Result<std::string> FileStore::get(std::string_view key, milliseconds wait) {
  DLRUN_TRY_ASSIGN(const auto path, path_of(key));
  const auto deadline = steady_clock::now() + wait;
  for (milliseconds pause{1};; pause = std::min(pause * 2, milliseconds{50})) {
    auto value = read_file(path, kStoreValueLimitBytes);
    if (value || value.error().code != Errc::kNotFound) return value;
    const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
    if (left <= milliseconds::zero()) {
      return fail(Errc::kTimeout, "store: no rank has put '{}' in {} within {} ms", printable(key),
                  folder_.string(), wait.count());
    }
    std::this_thread::sleep_for(std::min(pause, left));
  }
}

}  // namespace dlrun
