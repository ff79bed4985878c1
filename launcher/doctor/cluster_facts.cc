#include "launcher/doctor/cluster_facts.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>

#include "common/subprocess.h"
#include "common/text.h"
#include "container/backends.h"
#include "launcher/executors/classify.h"
#include "launcher/executors/scrub.h"
#include "launcher/spec/value_syntax.h"

namespace dlrun {
namespace {

/// The timeout of a query. A busy controller answers within seconds, and Slurm's own tools give up
/// after about ten seconds.
constexpr std::chrono::seconds kQueryTimeout{15};
constexpr const char* kUnknownVersion = "version unknown";

/// Returns the NAME=value fields of one line, split at blanks. Only fields that dlrun does not use
/// can have blanks in their values.
[[nodiscard]] std::map<std::string_view, std::string_view> name_value_pairs(std::string_view line) {
  std::map<std::string_view, std::string_view> pairs;
  for (std::string_view word : split(line, ' ')) {
    const auto equals = word.find('=');
    if (equals != std::string_view::npos)
      pairs.emplace(word.substr(0, equals), word.substr(equals + 1));
  }
  return pairs;
}

/// Parses the number at the start of "64", "64+" (some nodes have more) or "4(S:0-1)".
[[nodiscard]] std::optional<std::int64_t> leading_number(std::string_view text) {
  return parse_int(text.substr(0, text.find_first_not_of("0123456789")));
}

[[nodiscard]] std::optional<std::int64_t> time_limit_seconds(std::string_view text) {
  const auto limit = parse_time_limit(text);
  return limit && *limit ? std::optional(**limit) : std::nullopt;
}

/// Replaces `most` by the value if the value is larger, or if `most` is empty.
void raise_to(std::optional<std::int64_t>& most, const std::optional<std::int64_t>& value) {
  if (value) most = std::max(most.value_or(0), *value);
}

/// Returns true if a node in this state accepts jobs, now or after the end of its present jobs.
[[nodiscard]] bool accepts_jobs(std::string_view state) {
  constexpr std::array<std::string_view, 7> kUnusableStates{"down",  "drain",  "fail",    "unknown",
                                                            "inval", "future", "not_resp"};
  return std::none_of(kUnusableStates.begin(), kUnusableStates.end(),
                      [&](std::string_view word) { return state.starts_with(word); }) &&
         !state.ends_with('*');  // '*': the node does not respond
}

/// Asks one cluster for all facts.
class ClusterSurvey {
 public:
  ClusterSurvey(const Env& env, const std::string& cluster)
      : user_env_(env),
        cluster_(cluster),
        slurm_env_(scrubbed_for_slurm(env, munge_is_available())) {}

  [[nodiscard]] Result<ClusterFacts> run() && {
    for (const char* program : {"scontrol", "sinfo"}) {
      if (!find_program(program, slurm_env_)) {
        return fail(Errc::kNotFound,
                    "there is no Slurm here: {} is not in PATH. On a cluster, load the module that "
                    "brings Slurm, or use a login node; `dlrun run` starts a job on this "
                    "machine without Slurm",
                    program);
      }
    }
    DLRUN_TRY_ASSIGN(const auto config, ask(with_cluster({"scontrol", "show", "config"})));
    facts_.config = parse_config(config);
    if (const auto text = answer(with_cluster({"scontrol", "show", "partition", "--oneliner"})))
      facts_.partitions = parse_partitions(*text);
    if (const auto text =
            answer(with_cluster({"sinfo", "-h", "-e", "-o", std::string(kSinfoFormat)})))
      add_node_facts(facts_.partitions, *text);
    if (const auto text = answer({"srun", "--mpi=list"})) add_mpi_plugins(facts_, *text);
    if (const auto text = answer({"srun", "--help"}))
      facts_.has_pyxis = text->find("--container-image") != std::string::npos;
    examine_login_node();
    return std::move(facts_);
  }

 private:
  [[nodiscard]] std::vector<std::string> with_cluster(std::vector<std::string> argv) const {
    if (!cluster_.empty()) argv.insert(argv.begin() + 1, {"-M", cluster_});
    return argv;
  }

  /// Returns the program's standard output, followed by its standard error. Fails with kUnavailable
  /// if the program does not end in time, and with the error of slurm_error() if the program fails.
  [[nodiscard]] Result<std::string> ask(std::vector<std::string> argv) const {
    Command command;
    const std::string question = join(argv, " ");
    command.argv = std::move(argv);
    command.env = slurm_env_;
    command.timeout = kQueryTimeout;
    const auto done = run_command(command);
    if (!done && done.error().code == Errc::kTimeout)
      return fail(Errc::kUnavailable, "`{}` did not answer within {} s", question,
                  kQueryTimeout.count());
    if (!done) return tl::unexpected(done.error());
    if (done->exit_code != 0)
      return tl::unexpected(slurm_error(question, done->err, done->exit_code));
    return done->out + done->err;
  }

  /// Returns the answer of ask(). If ask() fails, adds the error to facts_.query_errors and returns
  /// nullopt.
  [[nodiscard]] std::optional<std::string> answer(std::vector<std::string> argv) {
    auto text = ask(std::move(argv));
    if (text) return std::move(*text);
    facts_.query_errors.push_back(text.error().message);
    return std::nullopt;
  }

  /// Returns the version from the first line that `PROGRAM ARGUMENT` prints: the first word that
  /// starts with a digit, else the whole line. Returns kUnknownVersion if the program fails or
  /// prints nothing, and an empty text if it is not installed.
  [[nodiscard]] std::string version_of(const std::string& program,
                                       const std::string& argument) const {
    if (!find_program(program, slurm_env_)) return {};
    const auto text = ask({program, argument});
    if (!text) return kUnknownVersion;
    const std::string_view line = trim(std::string_view(*text).substr(0, text->find('\n')));
    for (const std::string_view word : split(line, ' ')) {  // "apptainer version 1.1.3"
      if (!word.empty() && word.front() >= '0' && word.front() <= '9') return printable(word);
    }
    return line.empty() ? kUnknownVersion : printable(line);
  }

  void examine_login_node() {
    for (const ContainerBackendRow& row : kContainerBackends) {
      std::string version;
      for (const VersionCommand& command : row.backend().version_commands()) {
        if (version.empty()) version = version_of(command.program, command.argument);
      }
      if (!version.empty()) facts_.container_tools.emplace_back(row.name, version);
    }
    facts_.has_modules =
        user_env_.has("MODULESHOME") || user_env_.has("LMOD_CMD") || user_env_.has("LMOD_PKG");
    facts_.has_slurmrestd = find_program("slurmrestd", user_env_).has_value();
    for (const char* name : {"SCRATCH", "WORK", "PSCRATCH", "SCRATCHDIR"}) {
      const std::string folder = user_env_.get_or(name, "");
      std::error_code error;
      if (!folder.starts_with('/') || !std::filesystem::is_directory(folder, error)) continue;
      if (::access(folder.c_str(), W_OK | X_OK) != 0) continue;
      facts_.scratch_variable = name;
      break;
    }
    std::error_code error;
    for (std::filesystem::directory_iterator at("/sys/class/net", error), end; !error && at != end;
         at.increment(error)) {
      const std::string name = at->path().filename();
      if (name.starts_with("ib") || name.starts_with("hsn")) facts_.fast_networks.push_back(name);
    }
    std::sort(facts_.fast_networks.begin(), facts_.fast_networks.end());
  }

  const Env& user_env_;
  const std::string& cluster_;
  Env slurm_env_;  ///< for Slurm's commands
  ClusterFacts facts_;
};

}  // namespace

std::string ClusterFacts::setting(std::string_view name) const {
  const auto found = config.find(name);
  return found == config.end() ? "" : found->second;
}

Result<ClusterFacts> ask_cluster(const Env& env, const std::string& cluster) {
  return ClusterSurvey(env, cluster).run();
}

bool ClusterFacts::has_accounting() const {
  const std::string type = setting("AccountingStorageType");
  return !type.empty() && type != "accounting_storage/none";
}

bool ClusterFacts::has_mpi(std::string_view plugin) const {
  return std::find(mpi_plugins.begin(), mpi_plugins.end(), plugin) != mpi_plugins.end();
}

std::map<std::string, std::string, std::less<>> parse_config(std::string_view text) {
  std::map<std::string, std::string, std::less<>> config;
  for (std::string_view line : split(text, '\n')) {
    const auto equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view name = trim(line.substr(0, equals));
    std::string_view value = trim(line.substr(equals + 1));
    if (value == "(null)" || value == "N/A") value = "";
    if (!name.empty() && name.find(' ') == std::string_view::npos) config.emplace(name, value);
  }
  return config;
}

std::vector<PartitionFacts> parse_partitions(std::string_view text) {
  std::vector<PartitionFacts> partitions;
  for (std::string_view line : split(text, '\n')) {
    const auto fields = name_value_pairs(trim(line));
    const auto value_of = [&](std::string_view name) {
      const auto found = fields.find(name);
      return found == fields.end() ? std::string_view() : found->second;
    };
    if (value_of("PartitionName").empty()) continue;
    PartitionFacts partition;
    partition.name = value_of("PartitionName");
    partition.is_default = value_of("Default") == "YES";
    partition.is_up = value_of("State").empty() || value_of("State") == "UP";
    partition.nodes = parse_int(value_of("TotalNodes")).value_or(0);
    partition.max_nodes = parse_int(value_of("MaxNodes"));
    partition.max_time_seconds = time_limit_seconds(value_of("MaxTime"));
    partition.default_time_seconds = time_limit_seconds(value_of("DefaultTime"));
    partitions.push_back(std::move(partition));
  }
  return partitions;
}

void add_gres(PartitionFacts& partition, std::string_view gres) {
  raise_to(partition.gpus_per_node, gpus_in_gres(gres));
  for (std::string_view item : split(gres, ',')) {
    item = trim(item.substr(0, item.find('(')));
    const auto parts = split(item, ':');
    if (parts.size() < 3 || parts[0] != "gpu") continue;
    if (std::find(partition.gpu_types.begin(), partition.gpu_types.end(), parts[1]) ==
        partition.gpu_types.end())
      partition.gpu_types.emplace_back(parts[1]);
  }
}

void add_node_facts(std::vector<PartitionFacts>& partitions, std::string_view text) {
  for (std::string_view line : split(text, '\n')) {
    const auto fields = split(trim(line), '|');
    if (fields.size() < 6) continue;
    const auto found =
        std::find_if(partitions.begin(), partitions.end(),
                     [&](const PartitionFacts& partition) { return partition.name == fields[0]; });
    if (found == partitions.end()) continue;
    raise_to(found->cpus_per_node, leading_number(fields[2]));
    raise_to(found->mem_per_node_mib, leading_number(fields[3]));
    add_gres(*found, fields[4]);
    if (accepts_jobs(fields[5])) found->usable_nodes += leading_number(fields[1]).value_or(0);
  }
}

void add_mpi_plugins(ClusterFacts& facts, std::string_view text) {
  constexpr std::string_view kVersionsHeading = "plugin versions available:";
  for (std::string_view line : split(text, '\n')) {
    if (const auto at = line.find(kVersionsHeading); at != std::string_view::npos) {
      const std::string_view versions = line.substr(at + kVersionsHeading.size());
      for (std::string_view version : split(versions, ',')) {
        if (!trim(version).empty()) facts.pmix_versions.emplace_back(trim(version));
      }
      continue;
    }
    // Older versions print "srun: " before each plugin's name. Headings end with a colon or dots.
    if (line.starts_with("srun: ")) line.remove_prefix(6);
    const std::string_view name = trim(line);
    const bool is_word = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '/';
    });
    if (!is_word) continue;
    facts.mpi_plugins.emplace_back(name.starts_with("mpi/") ? name.substr(4) : name);
  }
}

}  // namespace dlrun
