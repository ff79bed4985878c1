#include "launcher/executors/account_use.h"

#include <algorithm>
#include <map>

#include "common/subprocess.h"
#include "common/text.h"
#include "launcher/executors/scrub.h"

namespace dlrun {
namespace {

constexpr std::size_t kMostNames = 1000;

/// Runs a query. Returns its output; nullopt if the program is missing, fails or takes too long.
std::optional<std::string> ask_slurm_for(const SlurmQuerySettings& settings,
                                         std::vector<std::string> argv) {
  Command command;
  command.argv = std::move(argv);
  if (!settings.cluster.empty())
    command.argv.insert(command.argv.begin() + 1, {"-M", settings.cluster});
  command.env = scrubbed_for_slurm(settings.env, munge_is_available());
  command.timeout = settings.query_timeout;
  if (!find_program(command.argv[0], command.env)) return std::nullopt;
  auto done = run_command(command);
  if (!done || done->exit_code != 0) return std::nullopt;
  return std::move(done->out);
}

/// Returns the user's name from the environment, for sacctmgr; empty if it is missing or is not a
/// plain word.
std::string name_of_user(const Env& env) {
  const std::string name = env.get_or("USER", env.get_or("LOGNAME", ""));
  const bool is_plain =
      !name.empty() && name.front() != '-' && std::all_of(name.begin(), name.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '_' || c == '-' || c == '.';
      });
  return is_plain ? name : std::string();
}

/// Adds the words of an answer, which are separated by newlines or commas, each once, and at most
/// kMostNames. Removes sinfo's '*' after the default partition.
void add_names(std::vector<std::string>& names, std::string_view out) {
  for (const auto line : split(out, '\n')) {
    for (auto word : split(line, ',')) {
      word = trim(word);
      if (word.ends_with('*')) word.remove_suffix(1);
      const std::string name = printable(word);
      if (name.empty() || name.starts_with("CLUSTER:") || names.size() >= kMostNames ||
          std::find(names.begin(), names.end(), name) != names.end())
        continue;
      names.push_back(name);
    }
  }
}

/// Parses "cpu=600000,gres/gpu=60000".
std::map<std::string, double> tres_minutes(std::string_view text) {
  std::map<std::string, double> minutes;
  for (const auto part : split(text, ',')) {
    const auto equals = part.find('=');
    if (equals == std::string_view::npos) continue;
    const auto value = parse_double(trim(part.substr(equals + 1)));
    if (value && *value >= 0) minutes[std::string(trim(part.substr(0, equals)))] = *value;
  }
  return minutes;
}

/// Returns the values of one column of the user's associations, each once; empty if sacctmgr fails.
std::vector<std::string> association_column(const SlurmQuerySettings& settings,
                                            const char* column) {
  std::vector<std::string> names;
  const std::string user = name_of_user(settings.env);
  if (user.empty()) return names;
  // sacctmgr has no -M; the cluster is a condition of the query.
  std::vector<std::string> argv{
      "sacctmgr", "-n", "-P", "show", "assoc", "user=" + user, std::string("format=") + column};
  if (!settings.cluster.empty()) argv.push_back("cluster=" + settings.cluster);
  const auto out = ask_slurm_for({settings.env, "", settings.query_timeout}, std::move(argv));
  if (out) add_names(names, *out);
  return names;
}

/// Returns the user's default account; empty if sacctmgr does not name one.
std::string default_account(const SlurmQuerySettings& settings) {
  const std::string user = name_of_user(settings.env);
  if (user.empty()) return {};
  const auto out = ask_slurm_for(
      {settings.env, "", settings.query_timeout},
      {"sacctmgr", "-n", "-P", "show", "user", "name=" + user, "format=DefaultAccount"});
  std::vector<std::string> names;
  if (out) add_names(names, *out);
  return names.empty() ? std::string() : names.front();
}

}  // namespace

double AccountLimit::left_minutes() const {
  return std::max(limit_minutes - used_minutes - reserved_minutes, 0.0);
}

std::optional<AccountUse> parse_sshare(std::string_view out, std::string_view account) {
  std::optional<AccountUse> use;
  // Slurm stores the names of accounts in lower case, but sbatch also accepts capital letters.
  const std::string wanted = lower_case(account);
  for (const auto line : split(out, '\n')) {
    const auto columns = split(line, '|');
    if (columns.size() < 5 || lower_case(trim(columns[0])) != wanted) continue;
    if (!use) use = AccountUse{std::string(account), {}};
    const auto used = tres_minutes(columns[3]), reserved = tres_minutes(columns[4]);
    const auto value = [](const std::map<std::string, double>& all, const std::string& name) {
      const auto found = all.find(name);
      return found == all.end() ? 0.0 : found->second;
    };
    for (const auto& [resource, limit] : tres_minutes(columns[2])) {
      use->limits.push_back({resource, printable(trim(columns[1])), limit, value(used, resource),
                             value(reserved, resource)});
    }
  }
  return use;
}

std::optional<AccountUse> account_use(const SlurmQuerySettings& settings, std::string account) {
  if (account.empty()) account = default_account(settings);
  if (account.empty() || account.front() == '-') return std::nullopt;
  const auto out = ask_slurm_for(
      settings, {"sshare", "-n", "-P", "-A", account, "-o", std::string(kSshareFormat)});
  return out ? parse_sshare(*out, account) : std::nullopt;
}

std::vector<std::string> partition_names(const SlurmQuerySettings& settings) {
  std::vector<std::string> names;
  if (const auto out = ask_slurm_for(settings, {"sinfo", "-h", "-o", "%R"})) add_names(names, *out);
  return names;
}

std::vector<PartitionSize> parse_partition_sizes(std::string_view out) {
  std::vector<PartitionSize> sizes;
  for (const auto line : split(out, '\n')) {
    const auto columns = split(line, '|');
    const auto nodes = columns.size() == 2 ? parse_int(trim(columns[1])) : std::nullopt;
    if (!nodes) continue;
    std::string_view name = trim(columns[0]);
    const bool is_default = name.ends_with('*');
    if (is_default) name.remove_suffix(1);
    const auto found = std::find_if(sizes.begin(), sizes.end(),
                                    [&](const PartitionSize& one) { return one.name == name; });
    if (found == sizes.end()) {
      sizes.push_back({std::string(name), is_default, *nodes});
    } else {
      found->nodes += *nodes;
    }
  }
  return sizes;
}

std::vector<PartitionSize> partition_sizes(const SlurmQuerySettings& settings) {
  const auto out = ask_slurm_for(settings, {"sinfo", "-h", "-o", "%P|%D"});
  return out ? parse_partition_sizes(*out) : std::vector<PartitionSize>();
}

std::vector<std::string> account_names(const SlurmQuerySettings& settings) {
  return association_column(settings, "Account");
}

std::vector<std::string> qos_names(const SlurmQuerySettings& settings) {
  return association_column(settings, "QOS");
}

}  // namespace dlrun
