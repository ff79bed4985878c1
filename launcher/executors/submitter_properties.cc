#include "launcher/executors/submitter_properties.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "common/files.h"
#include "common/text.h"
#include "launcher/executors/slurm_conf.h"

namespace dlrun {
namespace {

struct Limit {
  std::string_view name;
  int resource;
};
constexpr std::array<Limit, 10> kLimits = {{{"CPU", RLIMIT_CPU},
                                            {"FSIZE", RLIMIT_FSIZE},
                                            {"DATA", RLIMIT_DATA},
                                            {"STACK", RLIMIT_STACK},
                                            {"CORE", RLIMIT_CORE},
                                            {"RSS", RLIMIT_RSS},
                                            {"NPROC", RLIMIT_NPROC},
                                            {"NOFILE", RLIMIT_NOFILE},
                                            {"MEMLOCK", RLIMIT_MEMLOCK},
                                            {"AS", RLIMIT_AS}}};

constexpr std::size_t kProcFileLimitBytes = 64U << 10U;

/// Reads the umask from /proc: umask(2) would change it for a moment, while another thread may be
/// starting git.
[[nodiscard]] std::string own_umask() {
  const auto status = read_file("/proc/self/status", kProcFileLimitBytes);
  if (!status) return {};
  for (const std::string_view line : split(*status, '\n')) {
    if (line.starts_with("Umask:")) return std::string(trim(line.substr(6)));
  }
  return {};
}

/// Returns true if the list, a value of slurm.conf, has the limit (with or without RLIMIT_) or ALL.
[[nodiscard]] bool lists(std::string_view list, std::string_view limit) {
  const auto parts = split(list, ',');
  return std::any_of(parts.begin(), parts.end(), [&](std::string_view part) {
    part = trim(part);
    if (part.starts_with("RLIMIT_")) part.remove_prefix(7);
    return part == limit || part == "ALL";
  });
}

}  // namespace

void add_properties_of_submitter(Env& job_env, const std::string& directory, const Env& own_env) {
  job_env.set("SLURM_SUBMIT_DIR", directory);
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) == 0)
    job_env.set("SLURM_SUBMIT_HOST", host.data());
  job_env.set("SLURM_PRIO_PROCESS", fmt::format("{}", ::getpriority(PRIO_PROCESS, 0)));
  if (const std::string mask = own_umask(); !mask.empty()) job_env.set("SLURM_UMASK", mask);
  const std::string included = slurm_conf_value(own_env, "PropagateResourceLimits");
  const std::string excluded = slurm_conf_value(own_env, "PropagateResourceLimitsExcept");
  for (const Limit& limit : kLimits) {
    const bool is_propagated = !excluded.empty() ? !lists(excluded, limit.name)
                                                 : included.empty() || lists(included, limit.name);
    struct rlimit value {};
    if (is_propagated && ::getrlimit(static_cast<__rlimit_resource>(limit.resource), &value) == 0)
      job_env.set(fmt::format("SLURM_RLIMIT_{}", limit.name), fmt::format("{}", value.rlim_cur));
  }
}

}  // namespace dlrun
