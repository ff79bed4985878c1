// Tests one lead with the Slurm steps of several components. Runs the real dlrun-agent. A script in
// place of srun starts the tasks of a step on this machine.

#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "common/files.h"
#include "tests/ranks/agent_run.h"

namespace dlrun::agent {
namespace {

// The stand-in for srun. It appends its arguments to RUN/sruns, and skips all options but --ntasks.
// The step id is the process id of the stand-in. Like srun, the stand-in kills the tasks on QUIT.
constexpr const char* kSrun = R"(#!/bin/bash
echo "$*" >>"$DLRUN_RUN/sruns"
tasks=1
while [[ $1 == --* ]]; do
    [[ $1 != --ntasks=* ]] || tasks=${1#*=}
    shift
done
trap 'kill -TERM $(jobs -p)' TERM
trap 'kill -KILL $(jobs -p)' QUIT
export SLURM_STEP_ID=$$ SLURM_STEP_NUM_NODES=1 SLURM_NODEID=0
export SLURM_STEP_NUM_TASKS=$tasks SLURM_STEP_TASKS_PER_NODE=$tasks
for ((task = 0; task < tasks; task++)); do
    SLURM_PROCID=$task SLURM_LOCALID=$task "$@" &
done
code=0
while [[ -n $(jobs -pr) ]]; do
    wait -n
    task_code=$?
    ((code != 0 || task_code > 128)) || code=$task_code
done
exit "$code"
)";

/// Returns the arguments of one component, which runs a shell command in each rank.
std::vector<std::string> component_words(const std::string& name, int ranks,
                                         const std::vector<std::string>& options,
                                         const std::string& script) {
  const auto count = std::to_string(ranks);
  std::vector<std::string> words{"--component",       name,  "--component-nodes",      "1",
                                 "--component-ranks", count, "--component-first-node", "0"};
  words.insert(words.end(), options.begin(), options.end());
  for (const auto& word :
       {std::string("--"), "--ntasks=" + count, std::string("--gpus-per-node=0"), kAgent,
        std::string("rank"), std::string("--"), std::string("bash"), std::string("-c"), script})
    words.push_back(word);
  return words;
}

/// A run in a job that has one node, `here`, with the stand-in for srun.
class ComponentsRun : public Run {
 public:
  ComponentsRun() {
    const auto bin = test_folder / "bin";
    fs::create_directories(bin);
    REQUIRE(write_file_atomic(bin / "srun", kSrun));
    REQUIRE(::chmod((bin / "srun").c_str(), 0700) == 0);
    env.set("PATH", bin.string() + ":" + env.get_or("PATH", "/usr/bin:/bin"));
    env.set("SLURM_JOB_ID", "4711");
    env.set("SLURM_JOB_NODELIST", "here");
    env.set("SLURM_NTASKS", "99");
  }

  void start(const std::vector<std::vector<std::string>>& components,
             const std::vector<std::string>& options = {}) {
    std::vector<std::string> argv{kAgent, "lead"};
    argv.insert(argv.end(), options.begin(), options.end());
    for (const auto& words : components) {
      if (&words != &components.front()) argv.emplace_back("+++");
      argv.insert(argv.end(), words.begin(), words.end());
    }
    launch(argv);
  }

  /// Returns the entry of a component in components.json; null if there is none.
  [[nodiscard]] Json component(const std::string& name) const {
    const auto json = Json::parse(content_of("components.json"), nullptr, false);
    if (!json.is_object()) return nullptr;
    for (const auto& one : json["components"]) {
      if (one["name"] == name) return one;
    }
    return nullptr;
  }
  [[nodiscard]] bool is_in_state(const std::string& name, const std::string& state) const {
    const auto found = component(name);
    return found.is_object() && found["state"] == state;
  }
  /// Returns the only event of this kind about the component.
  [[nodiscard]] Json event_of(const std::string& kind, const std::string& name) const {
    std::vector<Json> found;
    for (const auto& event : events(kind)) {
      if (event.value("component", "") == name) found.push_back(event);
    }
    REQUIRE(found.size() == 1);
    return found.front();
  }
  /// Returns the pid that a program has written with kReportComponentPid.
  [[nodiscard]] pid_t pid_of(const std::string& name) const {
    return static_cast<pid_t>(parse_int(trim(content_of("pid-of-" + name))).value_or(0));
  }
};

const std::string kReportComponentPid =
    "printf $$ >$DLRUN_RUN/.$DLRUN_COMPONENT; "
    "mv $DLRUN_RUN/.$DLRUN_COMPONENT $DLRUN_RUN/pid-of-$DLRUN_COMPONENT; ";
/// An HTTP server on the component's port, {port}. It serves the run directory.
const std::string kServer = "echo {port} >>$DLRUN_RUN/ports; " + kReportComponentPid +
                            "exec python3 -m http.server --directory $DLRUN_RUN {port}";
const std::vector<std::string> kHttpService{"--role",  "service",      "--ready-http",
                                            "/health", "--port-count", "1"};

TEST_CASE(
    "a trainer starts when the server is ready, and the server is stopped after the trainer's "
    "end") {
  ComponentsRun run;
  run.start({component_words("server", 1, kHttpService, kServer),
             component_words("trainer", 2, {"--after", "server"},
                             "echo $DLRUN_COMPONENT_SERVER_ADDR $DLRUN_RANK/$DLRUN_WORLD_SIZE "
                             "[$CUDA_VISIBLE_DEVICES]")});
  REQUIRE(comes_true([&] { return run.is_in_state("server", "joined"); }));
  CHECK(run.is_in_state("trainer", "waiting"));
  CHECK(run.content_of("sruns").find("--job-name=trainer") == std::string::npos);
  REQUIRE(write_file_atomic(run.directory / "health", "good"));
  CHECK(run.wait() == 0);
  const auto addr = run.component("server")["addr"].get<std::string>();
  CHECK(run.content_of("logs/attempt-0/trainer/rank-0001.log") == addr + " 1/2 []\n");
  CHECK(run.content_of("sruns").find("--job-name=trainer --nodelist=here --ntasks=2") !=
        std::string::npos);
  CHECK(run.event_of("component_ready", "server")["addr"] == addr);
  const auto end = run.event_of("component_end", "server");
  CHECK(end["reason"] == "stopped");
  CHECK(end["code"] == 0);
  CHECK(run.event_of("component_end", "trainer")["reason"] == "ok");
  CHECK(run.is_in_state("server", "stopped"));
  CHECK(run.is_in_state("trainer", "ended"));
  REQUIRE(run.events("attempt_end").size() == 1);
  CHECK_FALSE(run.events("attempt_end")[0].contains("component"));
  CHECK(run.events("ended")[0]["state"] == "completed");
  CHECK(run.events("ended")[0]["message"] == "component trainer: all 2 ranks ended with 0");
  CHECK(processes_of(run.directory).empty());
}

TEST_CASE("the first failed rank of a main component is named, and its exit code is the job's") {
  ComponentsRun run;
  run.start({component_words("server", 1, {"--role", "service"}, kForever),
             component_words("trainer", 2, {}, "[ $DLRUN_RANK = 0 ] || exit 7; " + kForever),
             component_words("evaluator", 1, {}, kForever)});
  CHECK(run.wait() == 7);
  const auto end = run.events("attempt_end").at(0);
  CHECK(end["component"] == "trainer");
  CHECK(end["first_failed"]["rank"] == 1);
  CHECK(end["cause"] == "failure");
  for (const auto* name : {"server", "evaluator"})
    CHECK(run.event_of("component_end", name)["reason"] == "stopped");
  CHECK(run.events("ended")[0]["message"].get<std::string>().find("component trainer: rank 1 ") ==
        0);
  CHECK(run.err().find("dlrun: component trainer: rank 1 ") != std::string::npos);
  CHECK(processes_of(run.directory).empty());
}

TEST_CASE(
    "a failed service restarts on its port while the trainer runs, and the job fails if no restart "
    "is left") {
  ComponentsRun run;
  auto options = kHttpService;
  options[3] = "/";  // instead of /health
  options.insert(options.end(), {"--component-retry", "1"});
  run.start({component_words("server", 1, options, kServer),
             component_words("trainer", 1, {"--after", "server"}, kReportComponentPid + kForever)});
  REQUIRE(comes_true([&] { return run.pid_of("trainer") > 0; }));
  const auto addr = run.component("server")["addr"];
  const auto first = run.pid_of("server");
  REQUIRE(::kill(first, SIGKILL) == 0);
  REQUIRE(comes_true([&] {
    return run.pid_of("server") != first && run.is_in_state("server", "ready") &&
           run.component("server")["restarts"] == 1;
  }));
  CHECK(run.component("server")["addr"] == addr);
  CHECK(::kill(run.pid_of("trainer"), 0) == 0);
  const auto text = run.content_of("ports");
  const auto ports = split(trim(text), '\n');
  REQUIRE(ports.size() == 2);
  CHECK(ports[0] == ports[1]);
  CHECK(run.event_of("component_restart", "server")["left"] == 0);
  CHECK(run.events("attempt_end").empty());

  REQUIRE(::kill(run.pid_of("server"), SIGKILL) == 0);
  CHECK(run.wait() == 137);
  CHECK(run.events("attempt_end").at(0)["component"] == "server");
  CHECK(run.event_of("component_end", "trainer")["reason"] == "stopped");
}

TEST_CASE(
    "a component that is not ready in time ends the job, and the component that waits for it never "
    "starts") {
  ComponentsRun run;
  run.start({component_words(
                 "server", 1,
                 {"--role", "service", "--ready-tcp", "--port-count", "1", "--ready-timeout", "1"},
                 kForever),
             component_words("trainer", 1, {"--after", "server"}, "true")});
  CHECK(run.wait() == 83);
  CHECK(run.events("attempt_end").at(0)["reason"] == "not_ready");
  CHECK(run.events("ended")[0]["message"].get<std::string>().find(
            "component server: it was not ready within 1 s: TCP connection to ") == 0);
  CHECK(run.content_of("sruns").find("--job-name=trainer") == std::string::npos);
  CHECK(run.is_in_state("trainer", "stopped"));
}

TEST_CASE("a service that ends with 0 by itself fails the job") {
  ComponentsRun run;
  run.start({component_words("server", 1, {"--role", "service"}, "true"),
             component_words("trainer", 1, {}, kForever)});
  CHECK(run.wait() == 1);
  CHECK(run.is_in_state("server", "failed"));
  CHECK(run.err().find("although a service must run until the main components have ended") !=
        std::string::npos);
}

TEST_CASE("TERM to lead cancels a run with components and ends all its processes") {
  ComponentsRun run;
  run.start({component_words("server", 1, {"--role", "service"}, kReportComponentPid + kForever),
             component_words("trainer", 1, {}, kReportComponentPid + kForever)});
  REQUIRE(comes_true([&] { return run.pid_of("server") > 0 && run.pid_of("trainer") > 0; }));
  run.signal(SIGTERM);
  CHECK(run.wait() == 143);
  CHECK(run.events("ended")[0]["state"] == "cancelled");
  CHECK(run.events("ended")[0]["message"] == "ended by SIGTERM");
  CHECK(processes_of(run.directory).empty());
}

TEST_CASE("--retry starts all components again, with new secrets and logs of their own") {
  ComponentsRun run;
  run.start(
      {component_words("server", 1, {"--role", "service"},
                       "tr '\\0' '\\n' </proc/$PPID/environ | grep ^DLRUN_SECRET=; " + kForever),
       component_words("trainer", 1, {},
                       "until [ -s $DLRUN_RUN/logs/attempt-$DLRUN_ATTEMPT/server/"
                       "rank-0000.log ]; do sleep 0.05; done; "
                       "tr '\\0' '\\n' </proc/$PPID/environ | grep ^DLRUN_SECRET=; "
                       "exit $((5 - 5 * DLRUN_ATTEMPT))")},
      {"--retry", "1", "--retry-on", "failure"});
  CHECK(run.wait() == 0);
  std::vector<std::string> secrets;
  for (const auto* attempt : {"0", "1"}) {
    for (const auto* name : {"server", "trainer"}) {
      // A shell may print another line when dlrun ends the shell's child.
      const auto log =
          run.content_of(fmt::format("logs/attempt-{}/{}/rank-0000.log", attempt, name));
      secrets.push_back(log.substr(0, log.find('\n')));
      CHECK(secrets.back().size() == std::string("DLRUN_SECRET=").size() + 64);
    }
  }
  std::sort(secrets.begin(), secrets.end());
  CHECK(std::unique(secrets.begin(), secrets.end()) == secrets.end());
  CHECK(run.events("restarting").size() == 1);
  CHECK(run.events("components").size() == 2);
}

}  // namespace
}  // namespace dlrun::agent
