#pragma once
// The only interface through which a submission sends messages to people. launcher/submit prints
// nothing itself; the command line implements this interface for the terminal.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/download/downloader.h"
#include "launcher/spec/diagnostic_text.h"

namespace dlrun {

/// Receives all messages of a submission, in order. The texts are not escaped. Only the submitting
/// thread calls these functions.
class Reporter {
 public:
  Reporter() = default;
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;
  virtual ~Reporter() = default;

  /// Reports problems (warnings and errors) of a spec or a script, each with its place. Does
  /// nothing if there are none.
  virtual void diagnostics(const std::vector<Diagnostic>& found) = 0;
  virtual void warning(std::string_view message) = 0;
  /// Reports a remark that needs no reaction.
  virtual void note(std::string_view message) = 0;

  /// Reports a download's progress, about ten times a second. what: the file, and the work on it.
  /// folder: the folder of the file.
  virtual void progress(const std::filesystem::path& folder, const std::string& what,
                        const DownloadProgress& progress) = 0;
  /// Reports that the work of the last progress() has ended, with or without success.
  virtual void progress_ended() = 0;
  /// Reports that files were downloaded into the folder. file_count: at least 1. bytes: the size of
  /// all these files together.
  virtual void downloaded(const std::filesystem::path& folder, std::size_t file_count,
                          std::int64_t bytes) = 0;
};

}  // namespace dlrun
