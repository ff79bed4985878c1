#include "runtime/agent/surroundings.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/files.h"
#include "common/hostlist.h"
#include "common/text.h"

namespace dlrun::agent {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr unsigned kLimitSeconds = 60;
constexpr std::size_t kEntriesLimit = 10'000;

/// Returns the names in a folder that end with suffix, sorted and without the suffix.
std::vector<std::string> names_in(const fs::path& folder, std::string_view suffix) {
  std::vector<std::string> names;
  std::error_code error;
  for (auto entry = fs::directory_iterator(folder, error);
       !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.ends_with(suffix)) names.push_back(name.substr(0, name.size() - suffix.size()));
    if (names.size() == kEntriesLimit) break;
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// Returns the packages of a conda or virtual environment. Reads the folders directly, because
/// conda and pip would take seconds of processor time.
Json packages_of(const fs::path& prefix, bool is_conda) {
  std::vector<std::string> names;
  if (is_conda) names = names_in(prefix / "conda-meta", ".json");
  for (const auto& python : names_in(prefix / "lib", "")) {
    if (!python.starts_with("python")) continue;
    for (const auto& name : names_in(prefix / "lib" / python / "site-packages", ".dist-info"))
      names.push_back(name);
  }
  return {{"prefix", prefix.string()}, {"packages", names}};
}

Json python_environment(const Env& env, const char* variable, bool is_conda) {
  const auto prefix = env.get(variable);
  return prefix && !prefix->empty() ? packages_of(std::string(*prefix), is_conda) : Json(nullptr);
}

/// Returns Slurm's version, such as "slurm-wlm 22.05.8".
std::optional<std::string> slurm_version() {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen("srun --version 2>/dev/null", "re"),
                                                   ::pclose);
  std::array<char, 128> line{};
  if (!pipe || std::fgets(line.data(), line.size(), pipe.get()) == nullptr) return std::nullopt;
  return std::string(trim(line.data()));
}

void write_surroundings(const fs::path& run, int attempt, const Env& env) {
  const auto text_or_null = [&env](const char* name) {
    const auto value = env.get(name);
    return value && !value->empty() ? Json(std::string(*value)) : Json(nullptr);
  };
  Json json;
  json["attempt"] = attempt;
  json["time"] = utc_timestamp(std::chrono::system_clock::now());
  json["slurm"] = nullptr;
  json["cluster"] = text_or_null("SLURM_CLUSTER_NAME");
  json["partition"] = text_or_null("SLURM_JOB_PARTITION");
  json["nodes"] = nullptr;
  if (const auto list = env.get("SLURM_JOB_NODELIST")) {
    if (const auto version = slurm_version()) json["slurm"] = *version;
    if (const auto nodes = expand_hostlist(*list)) json["nodes"] = *nodes;
  }
  json["modules"] = Json::array();
  if (const auto modules = env.get("LOADEDMODULES")) {
    for (const auto module : split(*modules, ':')) {
      if (!module.empty()) json["modules"].push_back(module);
    }
  }
  json["conda"] = python_environment(env, "CONDA_PREFIX", true);
  json["venv"] = python_environment(env, "VIRTUAL_ENV", false);
  std::ignore = write_file_atomic(run / "surroundings.json",
                                  json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace

pid_t start_recording_surroundings(const fs::path& run, int attempt, const Env& env) {
  // The child is forked before the log is open, so it logs nothing.
  if (const pid_t child = ::fork(); child != 0) return child;
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::alarm(kLimitSeconds);
  std::ignore = ::nice(19);
  // Close the inherited outputs, so that readers of lead's output do not wait for this process.
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null.get(), fd);
  write_surroundings(run, attempt, env);
  ::_exit(0);
}

}  // namespace dlrun::agent
