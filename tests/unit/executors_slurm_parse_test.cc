#include <cstdlib>
#include <ctime>
#include <optional>
#include <string>

#include <doctest/doctest.h>

#include "launcher/executors/classify.h"
#include "launcher/executors/slurm_conf.h"
#include "launcher/executors/slurm_parse.h"

using namespace dlrun;

namespace {

/// Sets the time zone of this process while this object exists.
class ScopedTimeZone {
 public:
  explicit ScopedTimeZone(const char* zone) {
    if (const char* const before = std::getenv("TZ"); before != nullptr) before_ = before;
    ::setenv("TZ", zone, 1);
    ::tzset();
  }
  ~ScopedTimeZone() {
    if (before_) {
      ::setenv("TZ", before_->c_str(), 1);
    } else {
      ::unsetenv("TZ");
    }
    ::tzset();
  }
  ScopedTimeZone(const ScopedTimeZone&) = delete;
  ScopedTimeZone& operator=(const ScopedTimeZone&) = delete;

 private:
  std::optional<std::string> before_;
};

}  // namespace

TEST_CASE("sbatch's job id is found with and without a cluster, and after messages of a plugin") {
  CHECK(parse_sbatch("42\n")->id == "42");
  const auto federated = parse_sbatch("42;inter\n");
  CHECK(federated->id == "42");
  CHECK(federated->cluster == "inter");
  CHECK(parse_sbatch("Your account has 12 hours left\n4711\n")->id == "4711");
}

TEST_CASE("an answer of sbatch without a job id is an error, not job 0") {
  CHECK_FALSE(parse_sbatch("").has_value());
  CHECK_FALSE(parse_sbatch("Submitted\n").has_value());
  CHECK_FALSE(parse_sbatch("0\n").has_value());
}

TEST_CASE("squeue's lines are parsed, also with a comment that contains bars") {
  const auto reports = parse_squeue(
      "42|RUNNING|None|n[1-2]|2026-11-21T12:00:00|(null)|dlrun:abc|x\n43|PENDING|Dependency||N/"
      "A|afterok:42(unfulfilled)|(null)\n",
      "");
  REQUIRE(reports.size() == 2);
  CHECK(reports[0].phase == JobPhase::kRunning);
  CHECK(reports[0].nodes == "n[1-2]");
  CHECK(reports[0].comment == "dlrun:abc|x");
  CHECK(reports[0].reason.empty());
  CHECK(reports[1].phase == JobPhase::kPending);
  CHECK(reports[1].reason == "Dependency");
  CHECK(reports[1].start.empty());
  CHECK(reports[1].comment.empty());
}

TEST_CASE("the failed dependencies are read from squeue's line") {
  const auto reports = parse_squeue(
      "5|CANCELLED|DependencyNeverSatisfied||N/"
      "A|afterany:3(unfulfilled),afterok:4(failed)?afterok:6_2(failed)|x\n"
      "6|CANCELLED|DependencyNeverSatisfied||N/A||x\n",
      "");
  REQUIRE(reports.size() == 2);
  CHECK(reports[0].reason == kNeverSatisfied);
  CHECK(reports[0].failed_dependencies == std::vector<std::string>{"afterok:4", "afterok:6_2"});
  CHECK(reports[0].comment == "x");
  CHECK(reason_text(reports[0]) == "DependencyNeverSatisfied: afterok:4, afterok:6_2");
  CHECK(reports[1].reason == kNeverSatisfied);
  CHECK(reports[1].failed_dependencies.empty());
}

TEST_CASE(
    "squeue's cluster headings apply to the jobs below them, and malformed lines are ignored") {
  const auto reports = parse_squeue(
      "CLUSTER: inter\n42|RUNNING|None|n1|N/A||\nslurm_load: a remark\n7|x\n", "inter");
  REQUIRE(reports.size() == 1);
  CHECK(reports[0].job == JobId{"inter", "42"});
}

TEST_CASE("sacct's record gives the end state, the exit code and the signal") {
  const auto reports = parse_sacct(
      "42|CANCELLED by "
      "1000|0:15|n1|2026-11-21T12:00:00|None|dlrun:abc\n43|FAILED|3:0|n1|Unknown|None|\n",
      "");
  REQUIRE(reports.size() == 2);
  CHECK(reports[0].state == "CANCELLED");
  CHECK(reports[0].phase == JobPhase::kEnded);
  CHECK(reports[0].signal == 15);
  CHECK(reports[1].exit_code == 3);
  CHECK(reports[1].start.empty());
}

TEST_CASE("if sacct has several records of a requeued job, the last one counts") {
  const auto reports =
      parse_sacct("42|NODE_FAIL|0:0|n1|Unknown|None|\n42|COMPLETED|0:0|n2|Unknown|None|\n", "");
  REQUIRE(reports.size() == 1);
  CHECK(reports[0].state == "COMPLETED");
}

TEST_CASE("unknown job states count as running, and a job has ended only in a known end state") {
  CHECK(phase_of("HIBERNATING") == JobPhase::kRunning);  // Slurm has no such state
  for (const auto* end_state : {"COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL",
                                "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY", "REVOKED"}) {
    CAPTURE(end_state);
    CHECK(phase_of(end_state) == JobPhase::kEnded);
  }
  CHECK(phase_of("COMPLETING") == JobPhase::kRunning);
  CHECK(phase_of("CONFIGURING") == JobPhase::kPending);
  CHECK(phase_of("EXPEDITING") == JobPhase::kPending);
  CHECK(phase_of("TIMEOUT") == JobPhase::kEnded);
  CHECK(state_word("PENDING+") == "PENDING");
}

TEST_CASE("a refusal by Slurm and a controller that does not answer are different errors") {
  const auto refusal = slurm_error(
      "sbatch", "sbatch: error: Batch job submission failed: Invalid partition name specified\n",
      1);
  CHECK(refusal.code == Errc::kRefused);
  CHECK(refusal.message ==
        "Slurm refused (sbatch): Batch job submission failed: Invalid partition name specified");
  for (const char* words :
       {"sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect "
        "failure)",
        "slurm_load_jobs error: Unable to contact slurm controller (connect failure)",
        "squeue: error: Munge encode failed: Failed to access \"/run/munge/munge.socket.2\": No "
        "such file or directory",
        "sbatch: error: Batch job submission failed: Rate limit exceeded, please retry momentarily",
        "slurm_load_jobs error: Rate limit exceeded, please retry later",
        "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation"}) {
    CAPTURE(words);
    CHECK(slurm_error("x", words, 1).code == Errc::kUnavailable);
  }
}

TEST_CASE(
    "slurm_error() finds the reason for a refusal: nodes, partition, account, QOS or another one") {
  const auto refusal = [](const char* words) { return slurm_error("sbatch", words, 1).refusal; };
  for (const char* words :
       {"allocation failure: Requested node configuration is not available",
        "allocation failure: Requested nodes are busy",
        "allocation failure: Required node not available (down, drained or reserved)",
        "allocation failure: Requested partition configuration not available now"}) {
    CAPTURE(words);
    CHECK(refusal(words) == SlurmRefusal::kNodesUnavailable);
  }
  CHECK(refusal("sbatch: error: invalid partition specified: gpus\n"
                "sbatch: error: Batch job submission failed: Invalid partition name specified\n") ==
        SlurmRefusal::kPartition);
  CHECK(refusal("sbatch: error: Batch job submission failed: Invalid account or account/partition "
                "combination specified") == SlurmRefusal::kAccount);
  CHECK(refusal("sbatch: error: Batch job submission failed: Invalid qos specification") ==
        SlurmRefusal::kQos);
  for (const char* words :
       {"sbatch: error: Batch job submission failed: Node count specification invalid",
        "sbatch: error: Batch job submission failed: Invalid accounting frequency requested"})
    CHECK(refusal(words) == SlurmRefusal::kOther);
  CHECK(refusal("sbatch: error: Batch job submission failed: Unable to contact slurm controller") ==
        SlurmRefusal::kOther);
}

TEST_CASE("within() keeps the reason for the refusal when it adds the file to the message") {
  CHECK(within("x.yaml", slurm_error("sbatch", "Invalid qos specification", 1)).value().refusal ==
        SlurmRefusal::kQos);
}

TEST_CASE("the error for a daemon that does not answer names munge, slurmdbd or the controller") {
  const auto message = [](const char* words) { return slurm_error("x", words, 1).message; };
  CHECK(message("squeue: error: Munge encode failed: Failed to access "
                "\"/run/munge/munge.socket.2\": No such file or directory\n"
                "slurm_load_jobs error: Protocol authentication error\n")
            .starts_with("munge on this machine is unreachable: Munge encode failed"));
  CHECK(message("sacct: error: slurm_persist_conn_open_without_init: failed to open persistent "
                "connection to host:localhost:6819: Connection refused\n"
                "sacct: error: Sending PersistInit msg: Connection refused\n"
                "sacct: error: Problem talking to the database: Connection refused\n")
            .starts_with("Slurm's database (slurmdbd) is unreachable: "));
  for (const char* words :
       {"slurm_load_jobs error: Unable to contact slurm controller (connect failure)",
        "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation"}) {
    CAPTURE(words);
    CHECK(message(words).starts_with("Slurm's controller is unreachable: "));
  }
}

TEST_CASE(
    "Slurm's messages become one printable line without repetitions, or the exit code if there are "
    "none") {
  CHECK(slurm_message("sbatch: error: a\nsbatch: error: a\nsbatch: fatal: b\x1b[31m\n") ==
        "a; b\\x1b[31m");
  CHECK(slurm_error("sbatch", "", 7).message.find("code 7") != std::string::npos);
}

TEST_CASE("the cluster's name is read from slurm.conf as Slurm reads it") {
  CHECK(cluster_name_in("# ClusterName=no\nSlurmctldHost=a\nclustername = juwels # here\n") ==
        "juwels");
  CHECK(cluster_name_in("ClusterName=\"x\"\n") == "x");
  CHECK(cluster_name_in("ClusterNames=no\n").empty());
}

TEST_CASE("MaxArraySize is read from slurm.conf or scontrol, and an invalid value is ignored") {
  CHECK(max_array_size_in("ClusterName=x\nMaxArraySize=8 # few\n") == 8);
  CHECK(max_array_size_in(
            "MailProg                = /bin/mail\nMaxArraySize            = 1001\n") == 1001);
  CHECK_FALSE(max_array_size_in("MaxArraySize=many\n").has_value());
  CHECK_FALSE(max_array_size_in("MaxArraySizes=8\n").has_value());
}

TEST_CASE("a job's CPUs on a node are counted, also in lines for several nodes and with ranges") {
  const char* out =
      "JobId=7 JobName=x Nodes=n3 CPU_IDs=0-63\n   UserId=me(1)\n   NumNodes=3 NumCPUs=11\n   "
      "JOB_GRES=(null)\n"
      "     Nodes=n[1-2] CPU_IDs=0-3 Mem=0 GRES=\n     Nodes=n10 CPU_IDs=0,4-5 Mem=0 GRES=\n   "
      "MinCPUsNode=1\n   Command=/x\n   Comment=x Nodes=n3 CPU_IDs=0-63\n";
  CHECK(parse_job_cpus_on_node(out, "n2") == 4);
  CHECK(parse_job_cpus_on_node(out, "n10") == 3);
  CHECK_FALSE(parse_job_cpus_on_node(out, "n3").has_value());
  CHECK_FALSE(parse_job_cpus_on_node("  Nodes=n1 CPU_IDs=x Mem=0\n", "n1").has_value());
  CHECK_FALSE(parse_job_cpus_on_node("slurm_load_jobs error", "n1").has_value());
}

TEST_CASE("times of Slurm, which are local, are converted to UTC with regard to summer time") {
  const ScopedTimeZone zone("CET-1CEST,M3.5.0,M10.5.0/3");
  CHECK(utc_of_slurm_time("2026-01-22T03:00:00") == "2026-01-22T02:00:00.000Z");
  CHECK(utc_of_slurm_time("2026-07-22T03:00:00") == "2026-07-22T01:00:00.000Z");
  CHECK(utc_of_slurm_time("").empty());
  CHECK(utc_of_slurm_time("N/A").empty());
  CHECK(utc_of_slurm_time("2026-01-22T03:00:00 or later").empty());
  CHECK(utc_of_slurm_time("2026-02-30T00:00:00").empty());
  CHECK(utc_of_slurm_time("2026-04-31T12:00:00").empty());
}

TEST_CASE(
    "a skipped local time has no UTC time, and a local time that occurs twice has one of its two "
    "UTC times") {
  const ScopedTimeZone zone("EST5EDT,M3.2.0,M11.1.0");  // America/New_York, also without zone files
  CHECK(utc_of_slurm_time("2026-03-08T01:59:59") == "2026-03-08T06:59:59.000Z");
  CHECK(utc_of_slurm_time("2026-03-08T02:30:00").empty());
  CHECK(utc_of_slurm_time("2026-03-08T03:00:00") == "2026-03-08T07:00:00.000Z");
  const std::string twice = utc_of_slurm_time("2026-11-01T01:30:00");
  CHECK((twice == "2026-11-01T05:30:00.000Z" || twice == "2026-11-01T06:30:00.000Z"));
}

TEST_CASE("the long options of sbatch's help are read") {
  const auto names = parse_long_options(
      "Usage: sbatch [OPTIONS(0)...] executable [args(0)...]\n\nParallel run options:\n"
      "  -a, --array=indexes         job array index values\n  -A, --account=name          charge "
      "job\n"
      "      --bb=<spec>             burst buffer specifications\n      "
      "--[no-]container-mount-home bind mount\n"
      "Help options:\n  -h, --help                  show this help message\n  a remark on "
      "--nothing\n");
  CHECK(names == std::vector<std::string>{"array", "account", "bb", "container-mount-home",
                                          "no-container-mount-home", "help"});
}
