#include "launcher/runs/resolve.h"

#include <algorithm>
#include <vector>

#include "common/text.h"
#include "launcher/runs/journal.h"
#include "launcher/runs/origin.h"
#include "launcher/runs/run_directory.h"

namespace dlrun {
namespace {

bool looks_like_job(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789_") == std::string_view::npos && text.front() != '_';
}

/// The journal's job, else the claim's (a script that was submitted by hand).
bool has_job(const std::filesystem::path& run, std::string_view job) {
  if (const auto submission = read_submission(run); submission && *submission) return (*submission)->job.id == job;
  const auto claim = read_claim(run);
  return claim && *claim && (*claim)->job.id == job;
}

}  // namespace

std::optional<IndexEntry> run_at(std::string_view text, const std::filesystem::path& current_dir) {
  const auto path = (current_dir / std::filesystem::path(text)).lexically_normal();
  if (text.empty() || !is_run_directory(path)) return std::nullopt;
  std::error_code error;
  const auto folder = std::filesystem::canonical(path, error);
  if (error) return std::nullopt;
  return IndexEntry{folder.filename().string(), name_of_run(folder), folder, ""};
}

Result<IndexEntry> resolve_run(std::string_view text, const RunIndex& index, const std::filesystem::path& current_dir) {
  auto listing = index.list();
  if (!listing) return tl::unexpected(listing.error());
  const auto& entries = listing->entries;
  const auto first = [&](auto&& fits) { return std::find_if(entries.begin(), entries.end(), fits); };

  if (text == "last") {
    std::error_code ignored;
    const auto newest = first([&](const IndexEntry& e) { return std::filesystem::exists(e.path, ignored); });
    if (newest == entries.end())
      return fail(Errc::kNotFound, "there is no run yet (index: {})", index.directory().string());
    return *newest;
  }
  if (const auto found = first([&](const IndexEntry& e) { return e.id == text; }); found != entries.end())
    return *found;
  if (const auto found = first([&](const IndexEntry& e) { return e.name == text; }); found != entries.end())
    return *found;
  if (looks_like_job(text)) {
    if (const auto found = first([&](const IndexEntry& e) { return has_job(e.path, text); }); found != entries.end())
      return *found;
  }
  if (const auto run = run_at(text, current_dir)) {
    const auto known = first([&](const IndexEntry& e) { return e.path == run->path; });
    return known != entries.end() ? *known : *run;
  }
  std::vector<const IndexEntry*> matches;
  for (const auto& entry : entries) {
    if (!text.empty() && entry.id.starts_with(text)) matches.push_back(&entry);
  }
  if (matches.size() == 1) return *matches.front();
  if (matches.size() > 1) {
    std::string list;
    constexpr std::size_t kShown = 8;
    for (std::size_t i = 0; i < matches.size() && i < kShown; ++i) list += fmt::format("\n  {}", matches[i]->id);
    if (matches.size() > kShown) list += fmt::format("\n  ... and {} more", matches.size() - kShown);
    return fail(Errc::kUsage, "'{}' is the start of {} runs:{}", printable(text), matches.size(), list);
  }
  return fail(Errc::kNotFound,
              "no run '{}': neither a name, an id or its start, a job id, nor a run directory. `dlrun ls` lists them",
              printable(text));
}

}  // namespace dlrun
