#include "launcher/submit/downloads.h"

#include <algorithm>
#include <span>

#include "common/interrupt.h"
#include "common/text.h"
#include "launcher/download/downloader.h"
#include "launcher/spec/component_specs.h"
#include "launcher/spec/diagnostic_text.h"
#include "launcher/spec/key_name.h"

namespace dlrun {
namespace {

/// Files that are fetched into one folder, and the keys of the spec for them.
struct FolderOfDownloads {
  std::filesystem::path folder;
  std::string_view path_key, list_key;
  std::span<const Download> files;
};

/// Returns the spec's downloads. Leaves out those of train.data if the job does not run the
/// trainer; loading the spec then warns that the key has no effect.
std::vector<FolderOfDownloads> downloads_of(const LoadedSpec& loaded) {
  const JobSpec& spec = loaded.spec;
  std::vector<FolderOfDownloads> all;
  if (!spec.download.files.empty())
    all.push_back({spec.download.path.value_or(""), "download.path"_key, "download.files"_key,
                   spec.download.files});
  if (runs_trainer(loaded) && !spec.train.downloads.empty())
    all.push_back({spec.train.data_path.value_or(""), "train.data.path"_key,
                   "train.data.download"_key, spec.train.downloads});
  return all;
}

/// Makes an error at the place of a key: the folder's key, or an item of a list. For an item, the
/// message starts with the key of the list.
Diagnostic error_about(const LoadedSpec& loaded, const std::string& key, const Error& error) {
  const auto origin = loaded.spec.origins.find(key);
  const Origin where = origin != loaded.spec.origins.end()
                           ? origin->second
                           : Origin{Origin::Kind::kFile, loaded.file, 0, 0};
  return {Diagnostic::Severity::kError, where,
          fmt::format("{}: {}", key.substr(0, key.find('[')), error.message),
          source_line_of(loaded, where)};
}

/// Returns the error with its place in the spec. An interruption needs no place.
tl::unexpected<Error> with_place(const LoadedSpec& loaded, const std::string& key,
                                 const Error& error) {
  if (error.code == Errc::kInterrupted) return tl::unexpected(error);
  return fail(error.code, std::vector<Diagnostic>{error_about(loaded, key, error)});
}

std::string item_key(const FolderOfDownloads& group, std::size_t index) {
  return fmt::format("{}[{}]", group.list_key, index);
}

/// Returns the indices of the missing files. has: returns whether a file exists. Fails with the
/// errors of `has`: one for each existing file that differs from the spec.
template <typename Has>
Result<std::vector<std::size_t>> find_missing(const LoadedSpec& loaded,
                                              const FolderOfDownloads& group, Has&& has) {
  const auto downloads = group.files;
  std::vector<std::size_t> missing;
  std::vector<Diagnostic> wrong;
  Errc code = Errc::kInvalid;
  for (std::size_t i = 0; i < downloads.size(); ++i) {
    const Result<bool> found = has(downloads[i]);
    if (!found && found.error().code == Errc::kInterrupted) return tl::unexpected(found.error());
    if (!found) {
      wrong.push_back(error_about(loaded, item_key(group, i), found.error()));
      code = found.error().code;
    } else if (!*found) {
      missing.push_back(i);
    }
  }
  if (!wrong.empty()) return fail(code, std::move(wrong));
  return missing;
}

/// Fetches the missing files of one folder.
Result<> fetch_into_folder(Reporter& reporter, const LoadedSpec& loaded,
                           const FolderOfDownloads& group) {
  const auto downloads = group.files;
  const std::filesystem::path& folder = group.folder;
  if (are_verified(folder, downloads)) return {};

  const Interrupt interrupt;
  std::string what;  // shown beside the progress
  DownloadOptions options;
  options.on_progress = [&](const DownloadProgress& progress) {
    reporter.progress(folder, what, progress);
    return !interrupt.requested();
  };
  auto downloader = Downloader::in(folder, std::move(options));
  reporter.progress_ended();
  if (!downloader) return with_place(loaded, std::string(group.path_key), downloader.error());
  const auto missing = find_missing(loaded, group, [&](const Download& one) {
    what = fmt::format("{} is here and is being checked", printable(one.file));
    return downloader->verify_existing(one);
  });
  reporter.progress_ended();
  if (!missing) return tl::unexpected(missing.error());
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < missing->size(); ++i) {
    const Download& one = downloads[(*missing)[i]];
    if (interrupt.requested())
      return fail(Errc::kInterrupted, "interrupted; {} was not fetched", one.url);
    what = fmt::format("{} ({} of {})", printable(one.file), i + 1, missing->size());
    const auto fetched = downloader->fetch(one);
    reporter.progress_ended();
    if (!fetched) return with_place(loaded, item_key(group, (*missing)[i]), fetched.error());
    bytes += *fetched;
  }
  if (!missing->empty()) reporter.downloaded(folder, missing->size(), bytes);
  return {};
}

}  // namespace

Result<> fetch_downloads(Reporter& reporter, const LoadedSpec& loaded) {
  for (const FolderOfDownloads& group : downloads_of(loaded))
    DLRUN_TRY(fetch_into_folder(reporter, loaded, group));
  return {};
}

Result<std::vector<std::string>> missing_downloads(const LoadedSpec& loaded) {
  std::vector<std::string> names;
  for (const FolderOfDownloads& group : downloads_of(loaded)) {
    DLRUN_TRY_ASSIGN(const auto missing, find_missing(loaded, group, [&](const Download& one) {
                       return is_downloaded(group.folder, one);
                     }));
    for (const std::size_t index : missing) names.push_back(group.files[index].file);
  }
  return names;
}

}  // namespace dlrun
