#include "launcher/executors/slurm_conf.h"

#include <chrono>
#include <cstddef>
#include <utility>

#include <strings.h>

#include "common/files.h"
#include "common/subprocess.h"
#include "common/text.h"
#include "launcher/executors/scrub.h"

namespace dlrun {
namespace {

constexpr std::size_t kConfLimitBytes = 16U << 20U;
constexpr std::size_t kDefaultMaxArraySize = 1001;
constexpr std::chrono::seconds kScontrolTimeout{15};

bool equal_without_case(std::string_view a, std::string_view b) {
  return a.size() == b.size() && ::strncasecmp(a.data(), b.data(), a.size()) == 0;
}

/// Returns the first word of the value in a line "KEY = VALUE" of slurm.conf or of scontrol's
/// output. If several lines have the key, the last one counts.
std::string value_in(std::string_view text, std::string_view key) {
  std::string found;
  for (auto line : split(text, '\n')) {
    line = trim(line.substr(0, line.find('#')));
    const auto equals = line.find('=');
    if (equals == std::string_view::npos || !equal_without_case(trim(line.substr(0, equals)), key))
      continue;
    auto value = trim(line.substr(equals + 1));
    value = value.substr(0, value.find_first_of(" \t"));
    if (value.size() >= 2 && value.front() == '"' && value.back() == '"')
      value = value.substr(1, value.size() - 2);
    found = value;
  }
  return found;
}

/// Returns the text of the slurm.conf that Slurm's commands would read; empty if there is none.
std::string slurm_conf_text(const Env& env) {
  if (const auto set = env.get("SLURM_CONF"); set && !set->empty())
    return read_file(*set, kConfLimitBytes).value_or("");
  for (const char* path :
       {"/etc/slurm/slurm.conf", "/etc/slurm-llnl/slurm.conf", "/run/slurm/conf/slurm.conf"}) {
    if (auto text = read_file(path, kConfLimitBytes)) return std::move(*text);
  }
  return {};
}

/// Returns the output of `scontrol show config`; empty if the controller does not answer. cluster:
/// the value of -M; empty for the default cluster.
std::string shown_config(const Env& env, const std::string& cluster) {
  Command command;
  command.argv = {"scontrol"};
  if (!cluster.empty()) command.argv.insert(command.argv.end(), {"-M", cluster});
  command.argv.insert(command.argv.end(), {"show", "config"});
  command.env = scrubbed_for_slurm(env, munge_is_available());
  command.timeout = kScontrolTimeout;
  auto done = run_command(command);
  return done && done->exit_code == 0 ? std::move(done->out) : std::string();
}

}  // namespace

std::string cluster_name_in(std::string_view text) {
  return value_in(text, "ClusterName");
}

std::string configured_cluster_name(const Env& env) {
  return cluster_name_in(slurm_conf_text(env));
}

std::string slurm_conf_value(const Env& env, std::string_view key) {
  return value_in(slurm_conf_text(env), key);
}

std::optional<std::size_t> max_array_size_in(std::string_view text) {
  const auto size = parse_int(value_in(text, "MaxArraySize"));
  return size && *size > 0 ? std::optional(static_cast<std::size_t>(*size)) : std::nullopt;
}

std::size_t configured_max_array_size(const Env& env) {
  return max_array_size_in(slurm_conf_text(env)).value_or(kDefaultMaxArraySize);
}

std::string answering_cluster_name(const Env& env) {
  return cluster_name_in(shown_config(env, ""));
}

std::size_t max_array_size(const Env& env, const std::string& cluster) {
  const auto answer = max_array_size_in(shown_config(env, cluster));
  return answer ? *answer : configured_max_array_size(env);
}

}  // namespace dlrun
