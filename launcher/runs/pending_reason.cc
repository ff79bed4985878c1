#include "launcher/runs/pending_reason.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "common/text.h"
#include "launcher/executors/slurm_parse.h"

namespace dlrun {
namespace {

struct Meaning {
  std::string_view reason, text;
};

// Reasons of Slurm 20.11 to 25.11. Limits of accounts and QOSs have many reasons with regular
// names: limit_meaning() reads these.
constexpr std::array<Meaning, 32> kMeanings{{
    {"Priority",
     "other jobs with a higher priority come first; Slurm may fill a gap with a job that has a "
     "shorter resources.time or fewer nodes"},
    {"Resources",
     "it is next in line and waits until enough nodes are free; it may start earlier with fewer "
     "nodes or GPUs, or a shorter resources.time"},
    {"Dependency", "it waits for other jobs"},
    {"BeginTime",
     "its start time has not come: that of resources.begin, or the end of Slurm's pause of about "
     "two minutes after a requeue"},
    {"JobHeldUser", "you hold it; `scontrol release JOBID` lets it start"},
    {"JobHeldAdmin", "an administrator holds it; ask your support"},
    {"JobHoldMaxRequeue",
     "Slurm has requeued it too often and holds it; see its log, then `scontrol release JOBID`"},
    {"launch failed requeued held",
     "Slurm could not start it and holds it; `scontrol release JOBID` lets it start again"},
    {"JobArrayTaskLimit",
     "sweep.max_parallel allows no more points at the same time; it starts when another point "
     "ends"},
    {"ReqNodeNotAvail",
     "a node that it needs is down, drained or reserved; without resources.nodelist it can use "
     "other nodes; before a maintenance, a shorter resources.time helps"},
    {"Reservation", "it waits for its reservation to begin"},
    {"ReservationDeleted", "its reservation no longer exists; cancel it and submit it without one"},
    {"Licenses", "it waits for licences that other jobs use"},
    {"PartitionDown", "its partition takes no jobs at present; another resources.partition may"},
    {"PartitionInactive",
     "its partition starts no jobs at present; another resources.partition may"},
    {"PartitionNodeLimit",
     "its partition does not allow this number of nodes; change resources.nodes or "
     "resources.partition"},
    {"PartitionTimeLimit",
     "its time limit is longer than its partition allows; set a shorter resources.time, or another "
     "resources.partition"},
    {"PartitionConfig", "its partition does not allow its request; `dlrun check` shows the limits"},
    {"BadConstraints",
     "no node has what it asks for; change resources.constraint, GPUs, memory or cores"},
    {"AccountNotAllowed",
     "its partition or QOS does not allow its account; change resources.account or "
     "resources.partition"},
    {"QOSNotAllowed", "its partition or account does not allow its QOS; change resources.qos"},
    {"InvalidAccount", "Slurm does not know its account any more; set resources.account"},
    {"InvalidQOS", "Slurm does not know its QOS any more; set resources.qos"},
    {"AssociationJobLimit", "you run as many jobs as your account allows; it starts when one ends"},
    {"AssociationResourceLimit",
     "the running jobs use all that your account allows; it starts when some of them end"},
    {"AssociationTimeLimit",
     "its time limit is longer than your account allows, or the account's time is used up; set a "
     "shorter resources.time or another resources.account"},
    {"NodeDown", "a node that it needs is down"},
    {"SchedDefer", "on this cluster Slurm starts no job immediately when it is submitted"},
    {"Cleaning", "its previous attempt is still being cleaned up"},
    {"Prolog", "the cluster prepares its nodes"},
    {"BurstBufferResources", "the burst buffer has no space left for it"},
    {"DeadLine", "it cannot end before its deadline"},
}};

/// Returns the scope of a limit as text: "your account", or "its QOS".
std::string_view scope_of(std::string_view reason) {
  return reason.starts_with("QOS") ? "its QOS" : "your account";
}

/// Returns the meaning of a limit such as AssocGrpCPUMinutesLimit, QOSMaxGRESPerUser or
/// QOSMaxWallDurationPerJobLimit. The name of a limit consists of a scope (Assoc, QOS), of Grp, Max
/// or Min, of a resource, and perhaps of the holder (PerUser, PerJob).
std::string limit_meaning(std::string_view reason) {
  const auto has = [&](std::string_view part) {
    return reason.find(part) != std::string_view::npos;
  };
  const std::string_view scope = scope_of(reason);
  const std::string_view key = reason.starts_with("QOS") ? "resources.qos" : "resources.account";
  if (has("RunMin"))
    return fmt::format(
        "the time limits of the running jobs add up to all the minutes that {} allows; it starts "
        "when some of these jobs end, or with a shorter resources.time",
        scope);
  if (has("UsageThreshold"))
    return fmt::format(
        "the fair share of {} is below its threshold; it starts when the share "
        "has grown again",
        scope);
  if (has("Minutes") && !has("PerJob"))
    return fmt::format(
        "the hours of {} are used up; `dlrun check` and `sshare` show what is left, and another {} "
        "may have some",
        scope, key);
  if (has("Wall") && has("Grp"))
    return fmt::format("the jobs of {} have used up its time; another {} may have some", scope,
                       key);
  if (has("Wall") || has("TimeLimit"))
    return fmt::format("its time limit is longer than {} allows; set a shorter resources.time",
                       scope);
  if (has("Min") && !has("Minutes"))
    return fmt::format("it asks for less than {} requires; ask for more, or change {}", scope, key);
  if (has("PerJob") || has("PerNode"))
    return fmt::format("it asks for more than {} allows a single job; ask for less, or change {}",
                       scope, key);
  if (has("Submit"))
    return fmt::format("{} allows no more submitted jobs; it continues when some of them end",
                       scope);
  if (has("Jobs"))
    return fmt::format("as many jobs run as {} allows; it starts when one ends", scope);
  return fmt::format("{} jobs use all that {} allows; it starts when some of them end",
                     has("PerUser") ? "your running" : "the running", scope);
}

bool is_limit(std::string_view reason) {
  const auto rest = reason.starts_with("QOS")     ? reason.substr(3)
                    : reason.starts_with("Assoc") ? reason.substr(5)
                                                  : std::string_view();
  return rest.starts_with("Grp") || rest.starts_with("Max") || rest.starts_with("Min") ||
         rest.starts_with("TimeLimit") || rest.starts_with("ResourceLimit") ||
         rest.starts_with("JobLimit") || rest.starts_with("UsageThreshold");
}

/// Returns a reason without its details: "ReqNodeNotAvail" for "ReqNodeNotAvail,
/// UnavailableNodes:n1".
std::string_view without_details(std::string_view reason) {
  return reason.substr(0, reason.find_first_of(",("));
}

/// Returns the dependency that can no longer be fulfilled, as a sentence.
std::string never_satisfied_sentence(const JobReport& report) {
  const auto& failed = report.failed_dependencies;
  return fmt::format(
      "it waits for {}, which can no longer be fulfilled; cancel it, and submit it again",
      failed.empty() ? "a dependency" : printable(join(failed, ", ")));
}

}  // namespace

std::string meaning_of_reason(std::string_view reason) {
  const auto word = trim(without_details(reason));
  for (const Meaning& one : kMeanings) {
    if (one.reason == word) return std::string(one.text);
  }
  return is_limit(word) ? limit_meaning(word) : std::string();
}

std::string pending_sentence(const JobReport& report, std::string_view dependency) {
  if (report.reason.empty()) return {};
  const std::string word = printable(report.reason);
  std::string meaning = meaning_of_reason(report.reason);
  if (report.reason == kNeverSatisfied) meaning = never_satisfied_sentence(report);
  if (report.reason == "Dependency" && !dependency.empty())
    meaning = fmt::format("it waits for {}", printable(dependency));
  return meaning.empty() ? word : fmt::format("{}: {}", word, meaning);
}

bool waits_for_its_turn(const JobReport& report) {
  return report.phase == JobPhase::kPending &&
         (report.reason == "Priority" || report.reason == "Resources");
}

}  // namespace dlrun
