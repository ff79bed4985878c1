#include "cli/downloads.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <span>

#include "cli/interrupt.h"
#include "cli/terminal/print.h"
#include "cli/terminal/progress_line.h"
#include "cli/terminal/words.h"
#include "common/text.h"
#include "launcher/executors/downloader.h"
#include "launcher/spec/diagnostic.h"

namespace dlrun {
namespace {

using Clock = std::chrono::steady_clock;

/// Returns the spec's downloads; none if the job does not run the trainer, for which a warning has
/// already said that the key has no effect.
std::span<const Download> downloads_of(const LoadedSpec& loaded) {
  if (!loaded.preset.is_trainer) return {};
  return loaded.spec.train.downloads;
}

/// Makes an error about a key: train.data.path, or an item of a list, which the message names by
/// the list.
Diagnostic about(const LoadedSpec& loaded, const std::string& key, const Error& error) {
  const auto origin = loaded.spec.origins.find(key);
  const Origin where = origin != loaded.spec.origins.end()
                           ? origin->second
                           : Origin{Origin::Kind::kFile, loaded.file, 0, 0};
  return {Diagnostic::Severity::kError, where,
          fmt::format("{}: {}", key.substr(0, key.find('[')), error.message),
          line_under(loaded, where)};
}

std::string item_key(std::size_t index) {
  return fmt::format("train.data.download[{}]", index);
}

/// Shows the progress of a download on a terminal. If stderr is no terminal, only reports once that
/// it waits for another dlrun.
class DownloadTeller {
 public:
  DownloadTeller(const Cli& cli, std::string folder)
      : cli_(cli), folder_(std::move(folder)), line_(cli) {}

  void start(const std::string& what) {
    what_ = what;
    began_ = Clock::now();
  }

  void show(const DownloadProgress& progress) {
    if (progress.is_waiting && !is_wait_told_ && !line_.is_shown())
      print_note(cli_, fmt::format("waiting for another dlrun that downloads into {}",
                                   printable(folder_)));
    is_wait_told_ = is_wait_told_ || progress.is_waiting;
    std::string what = "waiting for another dlrun that downloads into the same folder", text;
    if (!progress.is_waiting) {
      what = what_;
      const double seconds = std::chrono::duration<double>(Clock::now() - began_).count();
      text = fmt::format(": {}", bytes_text(static_cast<double>(progress.bytes)));
      if (progress.total && *progress.total > 0)
        text += fmt::format(
            " of {} ({:.0f} %)", bytes_text(static_cast<double>(*progress.total)),
            100.0 * static_cast<double>(progress.bytes) / static_cast<double>(*progress.total));
      if (seconds > 0)
        text += fmt::format(", {}/s", bytes_text(static_cast<double>(progress.bytes) / seconds));
    }
    line_.show(what, text);
  }

  void clear() { line_.clear(); }

 private:
  const Cli& cli_;
  std::string folder_;
  ProgressLine line_;
  bool is_wait_told_ = false;
  std::string what_;
  Clock::time_point began_;
};

/// Returns the indices of the missing files. Fails after printing every existing file that differs
/// from the spec.
template <typename Has>
Result<std::vector<std::size_t>> find_missing(const Cli& cli, const LoadedSpec& loaded, Has&& has) {
  const auto downloads = downloads_of(loaded);
  std::vector<std::size_t> missing;
  std::vector<Diagnostic> wrong;
  Errc code = Errc::kInvalid;
  for (std::size_t i = 0; i < downloads.size(); ++i) {
    const Result<bool> found = has(downloads[i]);
    if (!found && found.error().code == Errc::kInterrupted) return tl::unexpected(found.error());
    if (!found) {
      wrong.push_back(about(loaded, item_key(i), found.error()));
      code = found.error().code;
    } else if (!*found) {
      missing.push_back(i);
    }
  }
  print_diagnostics(cli, wrong);
  if (!wrong.empty()) return fail(code, "");
  return missing;
}

}  // namespace

Result<> fetch_downloads(const Cli& cli, const LoadedSpec& loaded) {
  const auto downloads = downloads_of(loaded);
  if (downloads.empty()) return {};
  const std::filesystem::path folder = loaded.spec.train.data_path.value_or("");
  if (are_verified(folder, downloads)) return {};

  const Interrupt interrupt;
  DownloadTeller line(cli, folder.string());
  DownloadOptions options;
  options.go_on = [&](const DownloadProgress& progress) {
    line.show(progress);
    return !interrupt.requested();
  };
  auto downloader = Downloader::in(folder, std::move(options));
  line.clear();
  if (!downloader && downloader.error().code == Errc::kInterrupted)
    return tl::unexpected(downloader.error());
  if (!downloader) {
    print_diagnostics(cli, {about(loaded, "train.data.path", downloader.error())});
    return fail(downloader.error().code, "");
  }
  const auto missing = find_missing(cli, loaded, [&](const Download& one) {
    line.start(fmt::format("{} is here and is checked", printable(one.file)));
    return downloader->has(one);
  });
  line.clear();
  if (!missing) return tl::unexpected(missing.error());
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < missing->size(); ++i) {
    const Download& one = downloads[(*missing)[i]];
    if (interrupt.requested())
      return fail(Errc::kInterrupted, "interrupted; {} was not fetched", one.url);
    line.start(fmt::format("{} ({} of {})", printable(one.file), i + 1, missing->size()));
    const auto fetched = downloader->fetch(one);
    line.clear();
    if (!fetched && fetched.error().code == Errc::kInterrupted)
      return tl::unexpected(fetched.error());
    if (!fetched) {
      print_diagnostics(cli, {about(loaded, item_key((*missing)[i]), fetched.error())});
      return fail(fetched.error().code, "");
    }
    bytes += *fetched;
  }
  if (!missing->empty())
    print_note(cli,
               fmt::format("downloaded {} file{}, {}, into {}", missing->size(),
                           missing->size() == 1 ? "" : "s", bytes_text(static_cast<double>(bytes)),
                           printable(folder.string())));
  return {};
}

Result<std::vector<std::string>> missing_downloads(const Cli& cli, const LoadedSpec& loaded) {
  const std::filesystem::path folder = loaded.spec.train.data_path.value_or("");
  const auto missing =
      find_missing(cli, loaded, [&](const Download& one) { return is_downloaded(folder, one); });
  if (!missing) return tl::unexpected(missing.error());
  std::vector<std::string> names;
  for (const std::size_t index : *missing) names.push_back(downloads_of(loaded)[index].file);
  return names;
}

}  // namespace dlrun
