// Fuzzes reading a whole run directory, as status, ls, logs, report and sweep do. The input holds
// the files' contents, each after a line "@NAME". Lines of events get a valid checksum, so that the
// fuzzer reaches the code after the check. "@fifo NAME" and "@link NAME" create a FIFO or a link
// instead of a file.

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <string>

#include "common/json_lines.h"
#include "common/text.h"
#include "launcher/report/run_report.h"
#include "launcher/runs/history.h"
#include "launcher/runs/index.h"
#include "launcher/runs/last_words.h"
#include "launcher/runs/log_file.h"
#include "launcher/runs/resolve.h"
#include "launcher/runs/run_name.h"
#include "launcher/runs/status.h"
#include "launcher/runs/sweep_record.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace dlrun;
namespace fs = std::filesystem;

constexpr std::array<std::string_view, 19> kFileNames{"submission.json",
                                                      "claim",
                                                      "attempt",
                                                      "origin",
                                                      "ranks.json",
                                                      "surroundings.json",
                                                      "sweep.json",
                                                      "plan.json",
                                                      "resolved.yaml",
                                                      "provenance.json",
                                                      "job.sh",
                                                      "events.jsonl",
                                                      "metrics.jsonl",
                                                      "resubmitted",
                                                      "cancelled",
                                                      "local.out",
                                                      "slurm-42.out",
                                                      "array-0/0/submission.json",
                                                      "array-0/submission.json"};

/// Returns the folder that contains the run and the index; the first call creates it. The folder is
/// in memory if possible, because an input has up to nineteen files.
const fs::path& folder() {
  static const struct Folder {
    fs::path path;
    Folder() {
      std::string pattern =
          fs::is_directory("/dev/shm") ? "/dev/shm/run-fuzz-XXXXXX" : "/tmp/run-fuzz-XXXXXX";
      fuzz::expect(::mkdtemp(pattern.data()) != nullptr, "the folder of the run can be created");
      path = pattern;
    }
    ~Folder() {
      std::error_code ignored;
      fs::remove_all(path, ignored);
    }
  } made;
  return made.path;
}

void create_entry(const fs::path& path, std::string_view kind, std::string_view content) {
  fs::create_directories(path.parent_path());
  if (kind == "@fifo ") {
    fuzz::expect(::mkfifo(path.c_str(), 0600) == 0, "a FIFO can be created");
  } else if (kind == "@link ") {
    fs::create_symlink("/proc/self/cmdline", path);
  } else {
    std::ofstream(path, std::ios::binary) << content;
  }
}

/// Returns the text with a valid checksum in each line that ends with '}'.
std::string with_checksums(std::string_view lines) {
  std::string text;
  for (const auto line : split(lines, '\n')) {
    text += line.size() > 2 && line.ends_with('}') ? checked_line_of_text(line)
                                                   : std::string(line) + "\n";
  }
  return text;
}

/// Creates the entries of the input whose names are in kFileNames. If a name occurs twice, the
/// first entry counts.
void make_run(const fs::path& run, std::string_view input) {
  while (!input.empty()) {
    const auto end = std::min(input.find('\n'), input.size());
    std::string_view head = input.substr(0, end);
    input.remove_prefix(std::min(end + 1, input.size()));
    const auto next = input.find("\n@");
    const auto content = input.substr(0, next == std::string_view::npos ? input.size() : next + 1);
    input.remove_prefix(content.size());
    std::string_view kind = "@";
    for (const std::string_view word : {"@fifo ", "@link "}) {
      if (head.starts_with(word)) kind = word;
    }
    head.remove_prefix(std::min(kind.size(), head.size()));
    const auto* const known = std::find(kFileNames.begin(), kFileNames.end(), head);
    std::error_code error;
    if (known == kFileNames.end() ||
        fs::symlink_status(run / *known, error).type() != fs::file_type::not_found)
      continue;
    create_entry(run / *known, kind,
                 *known == "events.jsonl" ? with_checksums(content) : std::string(content));
  }
}

void read_as_the_commands_do(const fs::path& run, const RunIndex& index) {
  static_cast<void>(resolve_run("42", index, run));
  static_cast<void>(resolve_run("42_0", index, run));
  static_cast<void>(run_of_directory(".", run));
  RunStatus status;
  if (auto facts = RunInspector::read_facts(run)) status = assess(std::move(*facts));
  static_cast<void>(last_words(run, status));
  static_cast<void>(has_end(run));
  if (const auto log = job_log(run, status.facts)) {
    LogReader reader(*log, status.facts);
    reader.start_at_tail(10);
    static_cast<void>(reader.read_more());
  }
  if (const auto sweep = is_sweep(run) ? read_sweep(run) : fail(Errc::kNotFound, "")) {
    fuzz::expect(sweep->array_count <= sweep->points.size(),
                 "a sweep has at most as many arrays as points");
    for (const auto& point : sweep->points) {
      fuzz::expect(point.values.size() == sweep->keys.size(),
                   "each point has an entry for each key");
      static_cast<void>(describe(*sweep, point));
      static_cast<void>(current_run_of(point_path(run, point)));
    }
  }
  const auto report = read_report({"id", name_of_run(run), run, ""}, std::move(status));
  const auto page = report_page(report, "");
  fuzz::expect(page.size() < 16U << 20U, "the report is smaller than 16 MiB");
  fuzz::expect(page.find("<script") == std::string::npos,
               "all texts of a run are escaped in the report");
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fs::path run = folder() / "run";
  const RunIndex index(folder() / "index");
  fs::remove_all(run);
  fs::create_directories(run);
  static_cast<void>(index.add({"run", "run", run, "2026-11-21T12:00:00.000Z"}));
  make_run(run, fuzz::text_of(data, size));
  read_as_the_commands_do(run, index);
  return 0;
}
