#include "container/image_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>

#include <fmt/format.h>

#include "common/files.h"

namespace dlrun {
namespace {

/// Magic bytes at the start of a squashfs file.
constexpr std::string_view kSquashfs = "hsqs";
/// SIF's magic bytes, at offset kSifAt. The bytes before them make a SIF file executable.
constexpr std::string_view kSif = "SIF_MAGIC";
constexpr std::size_t kSifAt = 32;

}  // namespace

std::string why_unusable_as_image(const std::string& path, const ContainerBackend& backend) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return errno == EACCES ? "" : errno_text(errno);
  if (S_ISDIR(info.st_mode)) return backend.why_unusable(ImageKind::kFolder, path);
  if (!S_ISREG(info.st_mode)) return "it is not a regular file";
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.is_open()) return fmt::format("you cannot read it: {}", errno_text(errno));
  std::array<char, kSifAt + kSif.size()> bytes{};
  const auto got = ::pread(file.get(), bytes.data(), bytes.size(), 0);
  if (got < 0) return fmt::format("you cannot read it: {}", errno_text(errno));
  const std::string_view head(bytes.data(), static_cast<std::size_t>(got));
  const bool is_sif = head.size() == bytes.size() && head.substr(kSifAt) == kSif;
  return backend.why_unusable(is_sif                        ? ImageKind::kSif
                              : head.starts_with(kSquashfs) ? ImageKind::kSquashfs
                                                            : ImageKind::kOther,
                              path);
}

}  // namespace dlrun
