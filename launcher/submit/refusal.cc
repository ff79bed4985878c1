#include "launcher/submit/refusal.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <vector>

#include "common/text.h"
#include "launcher/executors/account_use.h"
#include "launcher/plan/sbatch_lines.h"
#include "launcher/spec/component_layout.h"
#include "launcher/spec/component_specs.h"
#include "launcher/spec/key_name.h"
#include "launcher/spec/value_syntax.h"

namespace dlrun {
namespace {

constexpr std::chrono::seconds kQueryTimeLimit{5};
constexpr std::size_t kNamesShown = 20;

/// A kind of name that Slurm can refuse.
struct RefusalRow {
  SlurmRefusal refusal;
  const char* key;
  const char* option;
  const char* short_option;
  std::string_view what;  ///< the names of this kind in words, plural
  std::vector<std::string> (*names)(const SlurmQuerySettings& settings);
};

const std::array<RefusalRow, 3>& refusal_rows() {
  static const std::array<RefusalRow, 3> rows{
      {{SlurmRefusal::kPartition, "resources.partition"_key, "--partition", "-p", "partitions here",
        partition_names},
       {SlurmRefusal::kAccount, "resources.account"_key, "--account", "-A", "accounts of this user",
        account_names},
       {SlurmRefusal::kQos, "resources.qos"_key, "--qos", "-q", "QOSs of this user", qos_names}}};
  return rows;
}

/// Returns "; the partitions here are cpu, gpu; did you mean 'gpu'?"; "" without names.
std::string names_text(const RefusalRow& row, std::vector<std::string> names,
                       const std::string& refused) {
  if (names.empty()) return {};
  const auto similar = nearest(refused, std::vector<std::string_view>(names.begin(), names.end()));
  const std::string guess = similar ? fmt::format("; did you mean '{}'?", *similar) : "";
  const std::size_t name_count = names.size();
  names.resize(std::min(name_count, kNamesShown));
  return fmt::format(
      "; the {} are {}{}{}", row.what, join(names, ", "),
      name_count > names.size() ? fmt::format(" and {} more", name_count - names.size()) : "",
      guess);
}

/// Returns the row for this reason; nullptr if Slurm did not refuse a name.
const RefusalRow* row_of(SlurmRefusal refusal) {
  for (const RefusalRow& row : refusal_rows()) {
    if (row.refusal == refusal) return &row;
  }
  return nullptr;
}

/// Returns the text about the name that Slurm refused. script: the job's script, or that of a part.
std::string refused_name_text(const Context& context, const Job& job, const std::string& script,
                              const RefusalRow& row) {
  const std::string refused = sbatch_value(script, row.option, row.short_option).value_or("");
  const SlurmQuerySettings settings{context.env, job.settings.clusters.value_or(""),
                                    kQueryTimeLimit};
  // A slurmrestd may belong to another Slurm than the commands of this machine.
  const auto names = job.settings.server ? std::vector<std::string>() : row.names(settings);
  return (refused.empty() ? fmt::format("{} is not set", row.key)
                          : fmt::format("{} is '{}'", row.key, printable(refused))) +
         names_text(row, names, refused);
}

/// Returns the error at the place of the first of these keys that has an origin; at the start of
/// the file if no key has one.
Diagnostic error_at(const LoadedSpec& loaded, const Origins& origins,
                    const std::vector<std::string_view>& keys, std::string message) {
  Origin where{Origin::Kind::kFile, loaded.file, 0, 0};
  for (const std::string_view key : keys) {
    if (const auto origin = origins.find(key); origin != origins.end()) {
      where = origin->second;
      break;
    }
  }
  return {Diagnostic::Severity::kError, where, std::move(message), source_line_of(loaded, where)};
}

/// Returns the text for a job that requests more nodes than its partition has: "resources.nodes is
/// 9, but partition 'batch' has 4 nodes"; "" if the number of nodes is not the reason, or is
/// unknown.
std::string too_many_nodes_text(const Context& context, const Job& job) {
  const auto& wanted = job.experiment->loaded.spec.resources.nodes;
  // With several clusters, sinfo would show partitions of the same name together.
  const bool has_several_clusters =
      job.settings.clusters.value_or("").find(',') != std::string::npos;
  if (!wanted || job.settings.server || has_several_clusters) return {};
  const auto name = sbatch_value(job.script, "--partition", "-p");
  for (const PartitionSize& one :
       partition_sizes({context.env, job.settings.clusters.value_or(""), kQueryTimeLimit})) {
    if ((name ? one.name != *name : !one.is_default) || wanted->min <= one.nodes) continue;
    return fmt::format("resources.nodes is {}, but partition '{}' has {} node{}",
                       format_nodes(*wanted), printable(one.name), one.nodes,
                       one.nodes == 1 ? "" : "s");
  }
  return {};
}

/// Returns the diagnostic for a refused job that is not heterogeneous; nullopt if dlrun cannot say
/// more than Slurm.
std::optional<Diagnostic> diagnostic_of_refusal(const Context& context, const Job& job,
                                                SlurmRefusal refusal) {
  const RefusalRow* const row = row_of(refusal);
  std::string key = row != nullptr ? row->key : "resources.nodes"_key;
  std::string text = row != nullptr ? refused_name_text(context, job, job.script, *row)
                     : refusal == SlurmRefusal::kNodesUnavailable
                         ? too_many_nodes_text(context, job)
                         : std::string();
  if (text.empty()) return std::nullopt;
  const LoadedSpec& loaded = job.experiment->loaded;
  Diagnostic found = error_at(loaded, loaded.spec.origins, {key}, std::move(text));
  found.key = std::move(key);
  return found;
}

/// Asks Slurm about each part of a heterogeneous job. Returns a diagnostic for each refused part.
std::vector<Diagnostic> diagnostics_of_refused_parts(const Context& context, const Job& job,
                                                     Executor& executor) {
  const LoadedSpec& loaded = job.experiment->loaded;
  const auto scripts = no_op_scripts_of_parts(job.script);
  const auto components_in_part_order =
      layout_of(loaded.spec, loaded_specs_of_components(loaded)).components_in_part_order;
  if (scripts.size() < 2 || scripts.size() != components_in_part_order.size()) return {};
  std::vector<Diagnostic> found;
  for (std::size_t part = 0; part < scripts.size(); ++part) {
    const auto verdict = executor.test(request_to_test(context, job.settings, scripts[part]));
    if (verdict) continue;
    if (verdict.error().code != Errc::kRefused) break;  // Slurm does not answer
    const ComponentSpec& component = loaded.spec.components[components_in_part_order[part]];
    const RefusalRow* const row = row_of(verdict.error().refusal);
    const std::string reason = row != nullptr ? refused_name_text(context, job, scripts[part], *row)
                                              : verdict.error().message;
    found.push_back(error_at(
        loaded, component.own.origins, {row != nullptr ? row->key : "component", "component"},
        fmt::format("component '{}': Slurm refuses its part of the job, even without the other "
                    "parts: {}",
                    component.name, reason)));
  }
  return found;
}

}  // namespace

Error explained_refusal(const Context& context, const Job& job, Executor& executor, Error error) {
  if (error.code != Errc::kRefused || job.source != Job::Source::kSpec || !job.experiment)
    return error;
  if (line_of_part_separator(job.script)) {
    error.diagnostics = diagnostics_of_refused_parts(context, job, executor);
  } else if (auto found = diagnostic_of_refusal(context, job, error.refusal)) {
    error.diagnostics = std::vector<Diagnostic>{std::move(*found)};
  }
  return error;
}

}  // namespace dlrun
