// The options of `lead` and of the components of a job.

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include "common/chain_limits.h"
#include "common/notice.h"
#include "common/text.h"
#include "runtime/agent/command_options.h"
#include "runtime/agent/component_options.h"
#include "runtime/agent/option_table.h"

namespace dlrun::agent {
namespace {

constexpr std::size_t kHttpPathLimitBytes = 1024;  ///< longest path of --ready-http, in bytes

std::vector<Option> options_of_run(LeadOptions& lead) {
  return {
      {"--runs", text_into("--runs", lead.runs), {}},
      {"--name", text_into("--name", lead.name), {}},
      {"--local",
       [&lead](std::string_view value) -> Result<> {
         const auto ranks = parse_int(value);
         if (!ranks || *ranks < 1 || *ranks > kLargestCountOnNode) {
           return fail(Errc::kUsage, "--local '{}' is not a number of ranks from 1 to {}",
                       printable(value), kLargestCountOnNode);
         }
         lead.local_ranks = static_cast<int>(*ranks);
         return {};
       },
       {}},
      {"--join-timeout",
       [&lead](std::string_view value) -> Result<> {
         const auto given = parse_double(value);
         if (!given || *given <= 0 || *given > 1e6) {
           return fail(Errc::kUsage,
                       "--join-timeout '{}' is not a positive number of seconds up to 1000000",
                       printable(value));
         }
         lead.join_timeout = std::chrono::milliseconds(std::llround(*given * 1000));
         return {};
       },
       {}},
      // The job script ended with this code before it started the ranks; lead only records that.
      {"--never-started",
       [&lead](std::string_view value) -> Result<> {
         const auto code = parse_int(value);
         if (!code || *code < 0 || *code > 255) {
           return fail(Errc::kUsage,
                       "--never-started '{}' is not an exit code of the job script, from 0 to 255",
                       printable(value));
         }
         lead.failed_script_code = static_cast<int>(*code);
         return {};
       },
       {}},
      {"--container-error", text_into("--container-error", lead.container_error), {}},
      {"--tensorboard", {}, [&lead] { lead.writes_tensorboard = true; }},
      {"--forward-usr1", {}, [&lead] { lead.forwards_usr1 = true; }},
      {"--borrowed", {}, [&lead] { lead.uses_existing_allocation = true; }}};
}

std::vector<Option> options_of_health(LeadOptions& lead) {
  return {{"--hang-after", seconds_into("--hang-after", lead.hang_after), {}},
          {"--rehearse", seconds_into("--rehearse", lead.rehearsal), {}},
          {"--idle-gpu-after", seconds_into("--idle-gpu-after", lead.idle_gpu_after), {}},
          {"--end-idle-gpus", {}, [&lead] { lead.idle_gpus_end_run = true; }},
          {"--stop-early",
           [&lead](std::string_view value) -> Result<> {
             DLRUN_TRY_ASSIGN(auto rule, parse_stop_rule(value));
             rule.after = lead.stop_early.after;
             lead.stop_early = std::move(rule);
             return {};
           },
           {}},
          {"--stop-after",
           [&lead](std::string_view value) -> Result<> {
             const auto after = parse_int(value);
             if (!after || *after < 1)
               return fail(Errc::kUsage, "--stop-after '{}' is not a whole number above 0",
                           printable(value));
             lead.stop_early.after = *after;
             return {};
           },
           {}},
          {"--known-bad", text_into("--known-bad", lead.known_bad.file), {}},
          {"--known-bad-for", seconds_into("--known-bad-for", lead.known_bad.time), {}}};
}

std::vector<Option> options_of_retry(RetryOptions& retry) {
  constexpr int kMost = 1'000'000;
  return {
      {"--retry", number_into("--retry", "restarts", 0, kMost, retry.max), {}},
      {"--retry-on", parsed_into(parse_causes, retry.on), {}},
      {"--no-progress", number_into("--no-progress", "attempts", 1, kMost, retry.no_progress), {}},
      {"--exclude-bad-nodes", {}, [&retry] { retry.excludes_bad_nodes = true; }},
      {"--chain",
       number_into("--chain", "jobs", kFewestChainJobs, kMostChainJobs, retry.chain),
       {}},
      {"--min-nodes", number_into("--min-nodes", "nodes", 1, kMost, retry.min_nodes), {}},
      {"--step-nodes", number_into("--step-nodes", "nodes", 1, kMost, retry.step_nodes), {}},
      {"--grow-memory",
       [&retry](std::string_view value) -> Result<> {
         const auto factor = parse_double(value);
         if (!factor || *factor <= 1 || *factor > 100)
           return fail(Errc::kUsage, "--grow-memory '{}' is not a factor above 1 and up to 100",
                       printable(value));
         retry.memory_factor = *factor;
         return {};
       },
       {}},
      {"--memory-limit",
       [&retry](std::string_view value) -> Result<> {
         const auto limit = parse_int(value);
         if (!limit || *limit < 1)
           return fail(Errc::kUsage, "--memory-limit '{}' is not a whole number of MiB above 0",
                       printable(value));
         retry.memory_limit_mib = *limit;
         return {};
       },
       {}},
      {"--signal-before",
       number_into("--signal-before", "seconds", 1, 65535, retry.signal_before_s),
       {}}};
}

std::vector<Option> options_of_reports(LeadOptions& lead) {
  NotifyOptions& notify = lead.notify;
  return {{"--notify",
           [&notify](std::string_view value) -> Result<> {
             notify.on.clear();
             for (const auto occasion : split(value, ',')) {
               if (std::find(kNoticeOccasions.begin(), kNoticeOccasions.end(), occasion) ==
                   kNoticeOccasions.end())
                 return fail(Errc::kUsage, "--notify '{}' is none of {}", printable(occasion),
                             join(std::vector<std::string>(kNoticeOccasions.begin(),
                                                           kNoticeOccasions.end()),
                                  ", "));
               notify.on.emplace_back(occasion);
             }
             return {};
           },
           {}},
          {"--webhook",
           [&notify](std::string_view value) -> Result<> {
             // The message does not show the value: somebody may give the address by mistake.
             if (value.empty() || value.find_first_of("=:/") != std::string_view::npos)
               return fail(Errc::kUsage, "--webhook takes only the name of a secret");
             notify.webhook = value;
             return {};
           },
           {}},
          {"--mlflow", text_into("--mlflow", lead.mlflow.url), {}},
          {"--mlflow-experiment", text_into("--mlflow-experiment", lead.mlflow.experiment), {}},
          {"--mlflow-secret", text_into("--mlflow-secret", lead.mlflow.secret), {}},
          {"--notify-word",
           [&notify](std::string_view value) -> Result<> {
             notify.command.emplace_back(value);
             return {};
           },
           {}}};
}

Result<ComponentRole> parse_role(std::string_view text) {
  if (const auto role = of_word<ComponentRole>(text)) return *role;
  return fail(Errc::kUsage, "--role '{}' is neither main nor service", printable(text));
}

/// Returns the path of --ready-http, which becomes part of a line of HTTP. Fails with kUsage if it
/// would break the line.
Result<std::string> parse_http_path(std::string_view text) {
  const bool is_clean =
      std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < '\x7f'; });
  if (text.empty() || text[0] != '/' || !is_clean || text.size() > kHttpPathLimitBytes) {
    return fail(Errc::kUsage,
                "--ready-http '{}' is not a path such as /health: '/', then at most {} characters "
                "of ASCII without spaces",
                printable(text), kHttpPathLimitBytes - 1);
  }
  return std::string(text);
}

/// Returns a function for Option::store_value that stores an index: a whole number from 0 to `max`.
std::function<Result<>(std::string_view)> index_into(std::string_view name, int max,
                                                     std::optional<int>& target) {
  return [=, &target](std::string_view value) -> Result<> {
    const auto index = parse_int(value);
    if (!index || *index < 0 || *index > max)
      return fail(Errc::kUsage, "{} '{}' is not a whole number from 0 to {}", name,
                  printable(value), max);
    target = static_cast<int>(*index);
    return {};
  };
}

std::vector<Option> options_of_component(ComponentOptions& component) {
  constexpr int kMost = 1'000'000;
  auto& ready = component.ready;
  return {{"--component", text_into("--component", component.name), {}},
          {"--role", parsed_into(parse_role, component.role), {}},
          {"--ready-http",
           [&ready](std::string_view value) -> Result<> {
             DLRUN_TRY_ASSIGN(ready.path, parse_http_path(value));
             ready.kind = ReadyCheck::Kind::kHttp;
             return {};
           },
           {}},
          {"--ready-tcp", {}, [&ready] { ready.kind = ReadyCheck::Kind::kTcp; }},
          {"--ready-timeout", seconds_into("--ready-timeout", ready.timeout), {}},
          {"--component-retry",
           number_into("--component-retry", "restarts", 0, kMost, component.retries),
           {}},
          {"--after",
           [&component](std::string_view value) -> Result<> {
             component.after.emplace_back(value);
             return {};
           },
           {}},
          {"--component-nodes",
           number_into("--component-nodes", "nodes", 1, kMost, component.node_count),
           {}},
          {"--component-ranks",
           number_into("--component-ranks", "ranks", 1, kMost, component.rank_count),
           {}},
          {"--component-first-node",
           index_into("--component-first-node", kMost, component.first_node),
           {}},
          {"--het-group", index_into("--het-group", kMost, component.het_group), {}},
          {"--port-count", number_into("--port-count", "ports", 0, 1, component.port_count), {}}};
}

/// The options of `rank` that lead must know.
struct RankFacts {
  bool program_is_bundled = false;
  std::string checks{};  ///< the value of --preflight
  std::vector<StageItem> stage{};
};

Result<RankFacts> facts_of_ranks(const std::vector<std::string>& command) {
  RankFacts facts;
  const auto rank_word = std::find(command.begin(), command.end(), "rank");
  const auto program = std::find(rank_word, command.end(), "--");
  facts.program_is_bundled = std::find(rank_word, program, "--bundled") != program;
  if (const auto checks = std::find(rank_word, program, "--preflight"); program - checks > 1)
    facts.checks = checks[1];
  for (auto at = std::find(rank_word, program, "--stage"); program - at > 1;
       at = std::find(at + 2, program, "--stage")) {
    DLRUN_TRY_ASSIGN(auto item, StageItem::parse(at[1]));
    facts.stage.push_back(std::move(item));
  }
  return facts;
}

/// Parses the options of one component. arguments: the word "lead", then the options. options: the
/// run-wide options that may precede those of the component.
Result<ComponentOptions> parse_component(const std::vector<std::string>& arguments,
                                         std::vector<Option> options) {
  ComponentOptions component;
  const auto component_options = options_of_component(component);
  options.insert(options.end(), component_options.begin(), component_options.end());
  DLRUN_TRY_ASSIGN(component.srun_arguments, read_options(arguments, options));
  DLRUN_TRY(check_component(component));
  DLRUN_TRY_ASSIGN(auto facts, facts_of_ranks(component.srun_arguments));
  component.program_is_bundled = facts.program_is_bundled;
  component.node_checks = std::move(facts.checks);
  return component;
}

/// Parses `lead OPTIONS --component ... -- STEP +++ --component ... -- STEP ...`. Run-wide options
/// come before the options of the first component.
Result<> parse_components(const std::vector<std::string>& arguments,
                          const std::vector<Option>& options, LeadOptions& lead) {
  auto begin = arguments.begin();
  while (begin != arguments.end()) {
    const auto end = std::find(begin, arguments.end(), "+++");
    const bool is_first = lead.components.empty();
    std::vector<std::string> words(begin, end);
    if (!is_first) words.insert(words.begin(), arguments.front());
    DLRUN_TRY_ASSIGN(auto component,
                     parse_component(words, is_first ? options : std::vector<Option>()));
    lead.components.push_back(std::move(component));
    if (end == arguments.end()) break;
    begin = end + 1;
  }
  DLRUN_TRY(check_components(lead.components));
  if (lead.local_ranks || lead.failed_script_code || lead.retry.min_nodes > 0 ||
      lead.retry.step_nodes > 0) {
    return fail(Errc::kUsage,
                "--local, --never-started, --min-nodes and --step-nodes do not work with "
                "--component");
  }
  lead.program_is_bundled = first_main_component(lead.components).program_is_bundled;
  return {};
}

}  // namespace

Result<LeadOptions> parse_lead(const std::vector<std::string>& arguments) {
  LeadOptions lead;
  auto options = options_of_run(lead);
  for (auto&& group :
       {options_of_health(lead), options_of_retry(lead.retry), options_of_reports(lead)})
    options.insert(options.end(), group.begin(), group.end());
  const auto command_at = std::find(arguments.begin(), arguments.end(), "--");
  const bool has_components =
      std::any_of(arguments.begin(), command_at, [](const std::string& argument) {
        return argument == "--component" || argument.starts_with("--component=");
      });
  if (has_components) {
    DLRUN_TRY(parse_components(arguments, options, lead));
  } else {
    DLRUN_TRY_ASSIGN(lead.command, read_options(arguments, options));
    DLRUN_TRY_ASSIGN(auto facts, facts_of_ranks(lead.command));
    lead.program_is_bundled = facts.program_is_bundled;
    lead.node_checks = std::move(facts.checks);
    lead.stage = std::move(facts.stage);
  }
  if (lead.name.find('/') != std::string::npos || lead.name == "." || lead.name == "..") {
    return fail(Errc::kUsage,
                "--name '{}' cannot name a run: a name contains no '/', and is not '.' or '..'",
                printable(lead.name));
  }
  return lead;
}

}  // namespace dlrun::agent
