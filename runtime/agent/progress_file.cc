#include "runtime/agent/progress_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "common/text.h"

namespace dlrun::agent {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kLimitBytes = 64U << 10U;
constexpr std::size_t kQuotedBytes = 80;

/// A field of `progress` (ENVIRONMENT.md).
struct Field {
  std::string_view name;
  std::string_view is;  ///< what it holds
  bool (*fits)(const Json& value);
};

bool is_count(const Json& value) {
  return value.is_number_integer();
}
bool is_number(const Json& value) {
  return value.is_number();
}
bool is_truth(const Json& value) {
  return value.is_boolean();
}

constexpr std::array<Field, 10> kFields{{{"step", "a whole number", is_count},
                                         {"steps", "a whole number", is_count},
                                         {"epoch", "a whole number", is_count},
                                         {"epochs", "a whole number", is_count},
                                         {"checkpoint", "a whole number", is_count},
                                         {"loss", "a number", is_number},
                                         {"accuracy", "a number", is_number},
                                         {"samples_per_s", "a number", is_number},
                                         {"work_ms", "a number", is_number},
                                         {"final", "true or false", is_truth}}};

}  // namespace

std::optional<std::string> progress_problem(std::string_view text) {
  const auto words = trim(text);
  const auto quoted = printable(words.substr(0, kQuotedBytes)) + (words.size() > kQuotedBytes ? "..." : "");
  if (text.size() >= kLimitBytes) return fmt::format("'{}' is longer than {} bytes", quoted, kLimitBytes - 1);
  const auto said = Json::parse(text, nullptr, false);
  if (!said.is_object())
    return fmt::format("'{}' is not a JSON object{}", quoted,
                       said.is_discarded() && text.find("NaN") != std::string_view::npos ? " (JSON has no NaN)" : "");
  bool has_any = false;
  for (const auto& field : kFields) {
    const auto found = said.find(field.name);
    if (found == said.end()) continue;
    has_any = true;
    if (!field.fits(*found)) return fmt::format("in '{}' \"{}\" is not {}", quoted, field.name, field.is);
  }
  if (!has_any) return fmt::format("'{}' has none of step, epoch, loss", quoted);
  return std::nullopt;
}

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
  is_unchanged_ = text == last_;
  if (is_unchanged_) return std::nullopt;
  last_ = std::move(text);
  auto said = Json::parse(last_, nullptr, false);
  if (!said.is_object()) return std::nullopt;
  return said;
}

std::optional<std::string> ProgressFile::take_problem(bool is_last) {
  if (has_told_problem_ || last_.empty() || !(is_unchanged_ || is_last)) return std::nullopt;
  auto problem = progress_problem(last_);
  has_told_problem_ = problem.has_value();
  return problem;
}

}  // namespace dlrun::agent
