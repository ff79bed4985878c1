// Also implements source_line_of(), which load.h declares.

#include "launcher/spec/load_diagnostics.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "launcher/spec/secret_lines.h"
#include "launcher/spec/spec_builder.h"

namespace dlrun {
namespace {

/// Returns the text that contains the origin's line; nullopt if the origin has no line, or if
/// `loaded` does not hold the text (such as that of a preset).
[[nodiscard]] std::optional<std::string_view> source_text(const LoadedSpec& loaded,
                                                          const Origin& where) {
  if (where.line == 0) return std::nullopt;
  if (where.kind == Origin::Kind::kSetOption) return where.source;
  if (where.kind == Origin::Kind::kSite && where.source == loaded.site_file.name)
    return loaded.site_file.text;
  if (where.kind != Origin::Kind::kFile) return std::nullopt;
  if (where.source == loaded.file) return loaded.text;
  for (const SpecFile& base : loaded.bases) {
    if (where.source == base.name) return base.text;
  }
  return std::nullopt;
}

/// Adds the source line to diagnostics that have only an origin.
void add_line_texts(std::vector<Diagnostic>& diagnostics, const LoadedSpec& loaded) {
  for (Diagnostic& diagnostic : diagnostics) {
    if (!diagnostic.line.empty()) continue;
    if (const auto text = source_text(loaded, diagnostic.where))
      diagnostic.line.text = line_of(*text, diagnostic.where.line);
  }
}

/// Hides the lines of one source that may hold a secret. The function needs the whole text of the
/// source, because the key of a secret may be on an earlier line than its value.
void hide_secret_lines(std::vector<Diagnostic>& diagnostics, const std::string& source,
                       std::string_view text) {
  std::optional<SecretLines> lines;  // most texts have no diagnostic, and the scan is slow
  for (Diagnostic& diagnostic : diagnostics) {
    if (diagnostic.line.text.empty() || diagnostic.where.source != source ||
        has_only_names_of_secrets(diagnostic.key, diagnostic.line.text))
      continue;
    if (!lines) lines.emplace(text);
    if (lines->contains(diagnostic.where.line)) diagnostic.line = hidden_line();
  }
}

/// Hides the lines of the spec, its bases and the site's file that may hold a secret.
void hide_secret_lines(std::vector<Diagnostic>& diagnostics, const LoadedSpec& loaded) {
  hide_secret_lines(diagnostics, loaded.file, loaded.text);
  for (const SpecFile& base : loaded.bases) hide_secret_lines(diagnostics, base.name, base.text);
  hide_secret_lines(diagnostics, loaded.site_file.name, loaded.site_file.text);
}

}  // namespace

SourceLine source_line_of(const LoadedSpec& loaded, const Origin& where) {
  const auto text = source_text(loaded, where);
  return text ? line_for_message(*text, where.line) : SourceLine{};
}

void set_shown_lines(std::vector<Diagnostic>& diagnostics, const LoadedSpec& loaded) {
  add_line_texts(diagnostics, loaded);
  hide_secret_lines(diagnostics, loaded);
}

void sort_by_position(std::vector<Diagnostic>& diagnostics, const LoadedSpec& loaded) {
  const auto file_index = [&](const Diagnostic& d) {
    std::size_t index = 0;
    if (d.where.source == loaded.file) return index;
    while (index < loaded.bases.size() && loaded.bases[index].name != d.where.source) ++index;
    return index + 1;
  };
  std::stable_sort(diagnostics.begin(), diagnostics.end(),
                   [&](const Diagnostic& a, const Diagnostic& b) {
                     const auto sort_key = [&](const Diagnostic& d) {
                       const bool is_file = d.where.kind == Origin::Kind::kFile;
                       return std::tuple(is_file && d.where.line == 0, !is_file, d.where.kind,
                                         is_file ? file_index(d) : 0, d.where.line, d.where.column);
                     };
                     return sort_key(a) < sort_key(b);
                   });
}

}  // namespace dlrun
