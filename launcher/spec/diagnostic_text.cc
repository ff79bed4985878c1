#include "launcher/spec/diagnostic_text.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "common/text.h"
#include "launcher/spec/secret_lines.h"
#include "launcher/spec/secret_words.h"

namespace dlrun {
namespace {

/// The largest number of bytes of a source line that are shown.
constexpr std::size_t kShownBytes = 160;
/// How many of these bytes are after the caret if the start of the line is cut off.
constexpr std::size_t kBytesAfterCaret = 40;

[[nodiscard]] bool is_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
}

/// Returns the offset in bytes at which the column (in characters, from 1) starts.
[[nodiscard]] std::size_t byte_of_column(std::string_view line, int column) {
  std::size_t at = 0;
  for (int seen = 1; seen < column && at < line.size(); ++seen) {
    ++at;
    while (at < line.size() && is_continuation(line[at])) ++at;
  }
  return at;
}

/// Returns the part of the line around the column, and the line to print below that part: white
/// space of the same width (tabs stay tabs), then '^' below the column.
[[nodiscard]] std::pair<std::string, std::string> excerpt(std::string_view line, int column) {
  std::size_t caret = byte_of_column(line, column);
  std::string prefix;
  if (caret > kShownBytes - kBytesAfterCaret) {
    std::size_t cut = caret - (kShownBytes - kBytesAfterCaret);
    while (cut < line.size() && is_continuation(line[cut])) ++cut;
    line.remove_prefix(cut);
    caret -= cut;
    prefix = "...";
  }
  std::string suffix;
  if (line.size() > kShownBytes) {
    std::size_t cut = kShownBytes;
    while (cut > caret && is_continuation(line[cut])) --cut;
    line = line.substr(0, cut);
    suffix = "...";
  }
  std::string shown = prefix, caret_line(prefix.size(), ' ');
  for (std::size_t i = 0; i < line.size();) {
    std::size_t next = i + 1;
    while (next < line.size() && is_continuation(line[next])) ++next;
    const std::string_view character = line.substr(i, next - i);
    const std::string text = character == "\t" ? "\t" : printable(character);
    shown += text;
    if (i < caret)
      caret_line += character == "\t"
                        ? "\t"
                        : std::string(text.size() == character.size() ? 1 : text.size(), ' ');
    i = next;
  }
  return {shown + suffix, caret_line + "^"};
}

/// Returns true if the source line may hold a secret.
[[nodiscard]] bool must_hide_line(const Diagnostic& diagnostic) {
  if (diagnostic.line.is_hidden) return true;
  if (has_only_names_of_secrets(diagnostic.key, diagnostic.line.text)) return false;
  return is_secret_key(diagnostic.key) || may_hold_secret(diagnostic.line.text);
}

/// Returns file:line:column, or only the file if the line is unknown.
[[nodiscard]] std::string position(const Origin& origin) {
  std::string text = printable(origin.source);
  if (origin.line > 0) text += fmt::format(":{}:{}", origin.line, origin.column);
  return text;
}

}  // namespace

std::string describe(const Origin& origin) {
  switch (origin.kind) {
    case Origin::Kind::kDefault:
      return "default";
    case Origin::Kind::kEnv:
      return "env " + origin.source;
    case Origin::Kind::kSetOption:
      return "--set " + shown_argument(origin.source);
    case Origin::Kind::kSite: {
      const std::string name = std::filesystem::path(origin.source).stem().string();
      return fmt::format("site {} ({}{})", printable(name), printable(origin.source),
                         origin.line > 0 ? fmt::format(":{}", origin.line) : "");
    }
    case Origin::Kind::kFile:
    case Origin::Kind::kPreset:
      break;
  }
  return position(origin);
}

std::string format_diagnostic(const Diagnostic& diagnostic) {
  const bool is_error = diagnostic.severity == Diagnostic::Severity::kError;
  const bool is_site = diagnostic.where.kind == Origin::Kind::kSite;
  std::string text = fmt::format(
      "{}: {}: {}\n", is_site ? position(diagnostic.where) : describe(diagnostic.where),
      is_error ? "error" : "warning", printable(mask_evident_secrets(diagnostic.message).text));
  if (diagnostic.where.line == 0 || diagnostic.line.empty()) return text;
  if (must_hide_line(diagnostic)) {
    text += fmt::format("{:>5} | (not shown)\n", diagnostic.where.line);
  } else {
    const auto [shown, caret_line] = excerpt(diagnostic.line.text, diagnostic.where.column);
    text += fmt::format("{:>5} | {}\n      | {}\n", diagnostic.where.line, shown, caret_line);
  }
  return text;
}

std::string format_diagnostics(std::span<const Diagnostic> diagnostics) {
  std::string text;
  for (const Diagnostic& diagnostic : diagnostics) text += format_diagnostic(diagnostic);
  return text;
}

}  // namespace dlrun
