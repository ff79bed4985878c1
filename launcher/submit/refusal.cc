#include "launcher/submit/refusal.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <vector>

#include "common/text.h"
#include "launcher/executors/account_use.h"
#include "launcher/plan/sbatch_lines.h"
#include "launcher/spec/key_name.h"

namespace dlrun {
namespace {

constexpr std::chrono::seconds kNamesTimeLimit{5};
constexpr std::size_t kNamesShown = 20;

/// A kind of name that Slurm can refuse.
struct RefusalRow {
  SlurmRefusal refusal;
  const char* key;
  const char* option;
  const char* short_option;
  std::string_view what;  ///< plural
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
  const std::size_t all = names.size();
  names.resize(std::min(all, kNamesShown));
  return fmt::format("; the {} are {}{}{}", row.what, join(names, ", "),
                     all > names.size() ? fmt::format(" and {} more", all - names.size()) : "",
                     guess);
}

}  // namespace

Error explained_refusal(const Context& context, const Job& job, Error error) {
  if (error.code != Errc::kRefused || job.source != Job::Source::kSpec || !job.experiment)
    return error;
  const auto& rows = refusal_rows();
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const RefusalRow& one) {
    return one.refusal == error.refusal;
  });
  if (row == rows.end()) return error;
  const LoadedSpec& loaded = job.experiment->loaded;
  const std::string refused = sbatch_value(job.script, row->option, row->short_option).value_or("");
  const SlurmQuerySettings settings{context.env, job.settings.clusters.value_or(""),
                                    kNamesTimeLimit};
  // A slurmrestd may belong to another Slurm than the commands of this machine.
  const auto names = job.settings.server ? std::vector<std::string>() : row->names(settings);
  const auto origin = loaded.spec.origins.find(row->key);
  const Origin where = origin != loaded.spec.origins.end()
                           ? origin->second
                           : Origin{Origin::Kind::kFile, loaded.file, 0, 0};
  const std::string value = refused.empty()
                                ? fmt::format("{} is not set", row->key)
                                : fmt::format("{} is '{}'", row->key, printable(refused));
  Diagnostic found{Diagnostic::Severity::kError, where, value + names_text(*row, names, refused),
                   source_line_of(loaded, where)};
  found.key = row->key;
  error.diagnostics = std::vector<Diagnostic>{std::move(found)};
  return error;
}

}  // namespace dlrun
