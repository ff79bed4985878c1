#include "runtime/agent/progress_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <iterator>

#include "common/bounded_json.h"
#include "common/text.h"

namespace dlrun::agent {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kLimitBytes = 64U << 10U;
constexpr std::size_t kQuotedBytes = 80;
/// After this number of looks in a row that found new but bad content, the content counts as wrong.
/// Until then, the program may still be writing the content.
constexpr int kBadLooksLimit = 5;

/// A field of `progress` (ENVIRONMENT.md).
struct ReportField {
  std::string_view name;
  std::string_view type;  ///< for messages
  bool (*fits)(const Json& value);
};

bool is_whole_number(const Json& value) {
  return value.is_number_integer();
}
bool is_number_or_null(const Json& value) {
  return value.is_number() || value.is_null();
}
bool is_boolean(const Json& value) {
  return value.is_boolean();
}

constexpr std::array<ReportField, 10> kFields{{{"step", "a whole number", is_whole_number},
                                               {"steps", "a whole number", is_whole_number},
                                               {"epoch", "a whole number", is_whole_number},
                                               {"epochs", "a whole number", is_whole_number},
                                               {"checkpoint", "a whole number", is_whole_number},
                                               {"loss", "a number", is_number_or_null},
                                               {"accuracy", "a number", is_number_or_null},
                                               {"samples_per_s", "a number", is_number_or_null},
                                               {"work_ms", "a number", is_number_or_null},
                                               {"final", "true or false", is_boolean}}};

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/// Writes null in place of each number that is not finite, because JSON does not allow it. Programs
/// print such numbers: Python's json.dump writes NaN and -Infinity, printf writes nan and inf.
std::string without_non_finite(std::string_view text) {
  std::string made;
  made.reserve(text.size());
  bool is_quoted = false;
  for (std::size_t at = 0; at < text.size();) {
    auto end = at;
    while (!is_quoted && end < text.size() && is_letter(text[end])) ++end;
    if (end > at) {
      const auto word = text.substr(at, end - at);
      std::string lower(word);
      for (char& letter : lower) letter = static_cast<char>(letter | 0x20);
      const bool is_non_finite = lower == "nan" || lower == "inf" || lower == "infinity";
      if (is_non_finite && !made.empty() && (made.back() == '-' || made.back() == '+'))
        made.pop_back();
      made += is_non_finite ? "null" : word;
      at = end;
      continue;
    }
    const char c = text[at++];
    made += c;
    if (c == '"') is_quoted = !is_quoted;
    if (c == '\\' && is_quoted && at < text.size()) made += text[at++];
  }
  return made;
}

Json parse_progress(std::string_view text) {
  return parse_json<Json>(without_non_finite(text));
}

}  // namespace

std::optional<std::string> progress_problem(std::string_view text) {
  const auto words = trim(text);
  const auto quoted =
      printable(words.substr(0, kQuotedBytes)) + (words.size() > kQuotedBytes ? "..." : "");
  if (text.size() >= kLimitBytes)
    return fmt::format("'{}' is longer than {} bytes", quoted, kLimitBytes - 1);
  const auto report = parse_progress(text);
  if (!report.is_object()) return fmt::format("'{}' is not a JSON object", quoted);
  bool has_any = false;
  for (const auto& field : kFields) {
    const auto found = report.find(field.name);
    if (found == report.end()) continue;
    has_any = true;
    if (!field.fits(*found))
      return fmt::format("in '{}' \"{}\" is not {}", quoted, field.name, field.type);
  }
  if (!has_any)
    return fmt::format("'{}' has no field of a progress report, such as step, epoch or loss",
                       quoted);
  return std::nullopt;
}

Result<ProgressFile> ProgressFile::create() {
  UniqueFd file(::memfd_create("dlrun-progress", MFD_CLOEXEC));
  if (!file.is_open())
    return fail(Errc::kIo, "no file for the program's progress: {}", errno_text(errno));
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
  is_unchanged_ = text == content_;
  if (is_unchanged_) return std::nullopt;
  content_ = std::move(text);
  bad_looks_ = progress_problem(content_) ? bad_looks_ + 1 : 0;
  auto report = parse_progress(content_);
  if (!report.is_object()) return Json::object();
  for (auto field = report.begin(); field != report.end();)
    field = field->is_null() ? report.erase(field) : std::next(field);
  return report;
}

std::optional<std::string> ProgressFile::take_problem(bool is_last) {
  if (has_reported_problem_ || content_.empty() ||
      !(is_unchanged_ || is_last || bad_looks_ >= kBadLooksLimit))
    return std::nullopt;
  auto problem = progress_problem(content_);
  has_reported_problem_ = problem.has_value();
  return problem;
}

}  // namespace dlrun::agent
