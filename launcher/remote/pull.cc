#include "launcher/remote/pull.h"

#include <algorithm>
#include <chrono>

#include <nlohmann/json.hpp>

#include "common/files.h"
#include "common/json_read.h"
#include "common/subprocess.h"
#include "common/text.h"
#include "launcher/remote/code_rsync.h"
#include "launcher/remote/host_command.h"
#include "launcher/view/exit_code.h"

namespace dlrun {
namespace {

constexpr std::chrono::hours kPullTimeLimit{24};
constexpr std::size_t kLargestPullList = 64U << 20U;  ///< bytes
constexpr std::string_view kCopiedPrefix = "copied ";

}  // namespace

std::vector<std::string> pull_argv(const FilePull& request) {
  std::vector<std::string> argv{"rsync",
                                "-rt",
                                "--no-links",
                                "--no-devices",
                                "--no-specials",
                                "--chmod=u+rwX,go-w",
                                "-O",
                                "-z",
                                "-s",
                                "--out-format=" + std::string(kCopiedPrefix) + "%n"};
  if (!request.pattern.empty()) {
    argv.insert(argv.end(), {"-m", "--include=*/", "--include=" + request.pattern, "--exclude=*"});
  }
  argv.insert(argv.end(), {"-e", rsync_shell(request.own_program, request.host),
                           "host:" + request.from + "/", request.to.string() + "/"});
  return argv;
}

Result<std::vector<std::string>> pull_files(const FilePull& request, const Env& env) {
  if (!request.from.starts_with('/'))
    return fail(Errc::kInvalid, "{}: '{}' from the host is no absolute path of the run's folder",
                request.host, printable(request.from));
  DLRUN_TRY(make_private_directories(request.to));
  Command command;
  command.argv = pull_argv(request);
  command.env = env;
  command.timeout = kPullTimeLimit;
  command.output_limit_bytes = kLargestPullList;
  const auto ended = run_command(command);
  if (!ended && ended.error().code == Errc::kNotFound)
    return fail(Errc::kNotFound, "dlrun copies the files with rsync, which is not installed here");
  if (!ended) return tl::unexpected(ended.error());
  if (ended->exit_code != 0) {
    const std::string lines = with_unix_line_ends(ended->err);
    return fail(is_connection_failure(ended->exit_code) ? Errc::kUnavailable : Errc::kIo,
                "{}: not all files could be copied to {} (exit code of rsync: {}): {}",
                request.host, printable(request.to.string()), ended->exit_code, trim(lines));
  }
  std::vector<std::string> files;
  for (const std::string_view line : split(ended->out, '\n')) {
    if (line.starts_with(kCopiedPrefix) && !line.ends_with('/'))
      files.emplace_back(line.substr(kCopiedPrefix.size()));
  }
  return files;
}

Result<std::string> copy_folder_name_of(const std::string& id) {
  const auto slash = id.find('/');
  const std::string run = id.substr(0, slash);
  const std::string point = slash == std::string::npos ? "" : id.substr(slash + 1);
  const bool has_valid_point = point.empty() || parse_int(point).value_or(-1) >= 0;
  constexpr std::size_t kLongest = 128;
  const bool is_plain = !run.empty() && run.size() <= kLongest && run.front() != '.' &&
                        run.front() != '-' && std::all_of(run.begin(), run.end(), [](char c) {
                          return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                                 (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
                        });
  if (!is_plain || !has_valid_point)
    return fail(Errc::kInvalid, "the host calls the run '{}', which is no id of a run",
                printable(id));
  return point.empty() ? run : run + "-" + point;
}

Result<RunOnHost> find_run_on_host(const Context& context, const Ssh& ssh, const std::string& run) {
  DLRUN_TRY_ASSIGN(const auto answer, ask_host(context, ssh, {"status", run, "--json"}));
  const auto status = json_read::object_of(answer.out);
  if (!status && answer.end.exit_code == kExitNotFound)
    return fail(Errc::kNotFound, "{}: {}", ssh.host().name, trim(answer.err));
  if (!status) {
    return fail(Errc::kInvalid, "{}: the host's answer about the run is no JSON object: {}",
                ssh.host().name, trim(answer.err).substr(0, 1000));
  }
  DLRUN_TRY_ASSIGN(auto folder, copy_folder_name_of(json_read::text(*status, "run")));
  return RunOnHost{json_read::text(*status, "path"), std::move(folder)};
}

}  // namespace dlrun
