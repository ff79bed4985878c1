#include "launcher/executors/slurm_conf.h"

#include <cstddef>

#include <strings.h>

#include "common/files.h"
#include "common/text.h"

namespace dlrun {
namespace {

constexpr std::size_t kConfLimit = 16U << 20U;

bool equal_without_case(std::string_view a, std::string_view b) {
  return a.size() == b.size() && ::strncasecmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace

std::string cluster_name_in(std::string_view slurm_conf) {
  std::string name;
  for (auto line : split(slurm_conf, '\n')) {
    line = trim(line.substr(0, line.find('#')));
    const auto equals = line.find('=');
    if (equals == std::string_view::npos || !equal_without_case(trim(line.substr(0, equals)), "ClusterName")) continue;
    auto value = trim(line.substr(equals + 1));
    value = value.substr(0, value.find_first_of(" \t"));
    if (value.size() >= 2 && value.front() == '"' && value.back() == '"') value = value.substr(1, value.size() - 2);
    name = value;
  }
  return name;
}

std::string slurm_cluster_name(const Env& env) {
  if (const auto set = env.get("SLURM_CONF"); set && !set->empty()) {
    const auto text = read_file(*set, kConfLimit);
    return text ? cluster_name_in(*text) : std::string();
  }
  for (const char* path : {"/etc/slurm/slurm.conf", "/etc/slurm-llnl/slurm.conf", "/run/slurm/conf/slurm.conf"}) {
    if (const auto text = read_file(path, kConfLimit)) return cluster_name_in(*text);
  }
  return {};
}

}  // namespace dlrun
