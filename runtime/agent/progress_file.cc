#include "runtime/agent/progress_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "common/text.h"

namespace dlrun::agent {
namespace {

constexpr std::size_t kLimitBytes = 64U << 10U;

}  // namespace

Result<ProgressFile> ProgressFile::create() {
  UniqueFd file(::memfd_create("dlrun-progress", MFD_CLOEXEC));
  if (!file.is_open()) return fail(Errc::kIo, "no file for the program's progress: {}", errno_text(errno));
  return ProgressFile(std::move(file));
}

std::string ProgressFile::path() const {
  return fmt::format("/proc/{}/fd/{}", ::getpid(), file_.get());
}

std::optional<nlohmann::ordered_json> ProgressFile::take_news() {
  std::string text(kLimitBytes, '\0');
  const ssize_t got = ::pread(file_.get(), text.data(), text.size(), 0);
  if (got <= 0) return std::nullopt;
  text.resize(static_cast<std::size_t>(got));
  if (text == last_) return std::nullopt;
  auto said = nlohmann::ordered_json::parse(text, nullptr, false);
  if (!said.is_object()) return std::nullopt;
  last_ = std::move(text);
  return said;
}

}  // namespace dlrun::agent
