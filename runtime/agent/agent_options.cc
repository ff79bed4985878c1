#include "runtime/agent/agent_options.h"

#include "common/text.h"
#include "runtime/agent/command_options.h"
#include "runtime/agent/option_table.h"

namespace dlrun::agent {
namespace {

/// Parses the options of `autopsy`, which only the rank's agent starts.
Result<Invocation> parse_autopsy(const std::vector<std::string>& arguments) {
  AutopsyOptions autopsy;
  const auto pids = read_options(arguments, {{"--file",
                                              [&](std::string_view value) -> Result<> {
                                                autopsy.file = value;
                                                return {};
                                              },
                                              {}},
                                             {"--rank",
                                              [&](std::string_view value) {
                                                return store_number(value, "--rank", "ranks", 0,
                                                                    1 << 30, autopsy.rank);
                                              },
                                              {}},
                                             {"--ask-ras", {}, [&] { autopsy.asks_ras = true; }}});
  if (!pids) return tl::unexpected<Error>(pids.error());
  for (const auto& word : *pids) {
    const auto pid = parse_int(word);
    if (!pid || *pid < 1 || *pid > 1 << 30)
      return fail(Errc::kUsage, "'{}' is not a process id", printable(word));
    autopsy.pids.push_back(static_cast<pid_t>(*pid));
  }
  return autopsy;
}

/// Parses the options of `stage`, which only the rank's agent starts. The items follow "--".
Result<Invocation> parse_stage(const std::vector<std::string>& arguments) {
  StageOptions stage;
  const auto items = read_options(
      arguments, {{"--nnodes", number_into("--nnodes", "nodes", 1, 1 << 24, stage.nnodes), {}}});
  if (!items) return tl::unexpected<Error>(items.error());
  for (const auto& word : *items) {
    DLRUN_TRY_ASSIGN(auto item, StageItem::parse(word));
    stage.items.push_back(std::move(item));
  }
  return stage;
}

/// Parses the options of `collect`, which only the rank's agent starts. The items follow "--".
Result<Invocation> parse_collect(const std::vector<std::string>& arguments) {
  CollectOptions collect;
  const auto items = read_options(
      arguments, {{"--run", text_into("--run", collect.run), {}},
                  {"--node",
                   [&](std::string_view value) -> Result<> {
                     int node = 0;
                     DLRUN_TRY(store_number(value, "--node", "nodes", 0, 1 << 24, node));
                     collect.node = node;
                     return {};
                   },
                   {}},
                  {"--incomplete-since",
                   [&](std::string_view value) -> Result<> {
                     const auto time = parse_int(value);
                     if (!time)
                       return fail(Errc::kUsage,
                                   "--incomplete-since '{}' is not a Unix time in milliseconds",
                                   printable(value));
                     collect.incomplete_since = std::chrono::milliseconds(*time);
                     return {};
                   },
                   {}},
                  {"--last", {}, [&] { collect.is_last = true; }}});
  if (!items) return tl::unexpected<Error>(items.error());
  for (const auto& word : *items) {
    DLRUN_TRY_ASSIGN(auto item, OutputItem::parse(word));
    collect.items.push_back(std::move(item));
  }
  return collect;
}

Result<Invocation> parse_relay(const std::vector<std::string>& arguments) {
  RelayOptions options;
  for (std::size_t at = 1; at < arguments.size(); ++at) {
    if (arguments[at] != "--any-user")
      return fail(Errc::kUsage, "relay: takes --any-user, not '{}'", printable(arguments[at]));
    options.connects_to_any_user = true;
  }
  return options;
}

/// Parses the options of `notify` (send_helper.h), which only lead starts.
Result<Invocation> parse_notify(const std::vector<std::string>& arguments) {
  if (arguments.size() != 3 || arguments[1] != "--run" || !arguments[2].starts_with('/'))
    return fail(Errc::kUsage, "notify: takes --run and an absolute path");
  return SendHelperOptions{arguments[2]};
}

Result<Invocation> parse_sshd(const std::vector<std::string>& arguments) {
  SshdOptions options;
  for (std::size_t at = 1; at < arguments.size(); ++at) {
    if (arguments[at] == "--check") {
      options.only_finds_sshd = true;
    } else if (arguments[at] == "--folder") {
      if (++at == arguments.size())
        return fail(Errc::kUsage, "sshd: --folder needs an absolute path");
      options.folder = arguments[at];
    } else {
      return fail(Errc::kUsage, "sshd: takes --check or --folder DIR, not '{}'",
                  printable(arguments[at]));
    }
  }
  if (!options.only_finds_sshd && !options.folder.is_absolute())
    return fail(Errc::kUsage, "sshd: --folder needs an absolute path");
  return options;
}

}  // namespace

Result<Invocation> parse_arguments(const std::vector<std::string>& arguments) {
  const auto command = arguments.empty() ? std::string() : arguments.front();
  if (command == "lead") return parse_lead(arguments);
  if (command == "rank") return parse_rank(arguments);
  if (command == "autopsy") return parse_autopsy(arguments);
  if (command == "stage") return parse_stage(arguments);
  if (command == "collect") return parse_collect(arguments);
  if (command == "relay") return parse_relay(arguments);
  if (command == "notify") return parse_notify(arguments);
  if (command == "sshd") return parse_sshd(arguments);
  if (command == "--help" || command == "-h") return HelpAsked{};
  if (command == "--version") return VersionAsked{};
  return fail(Errc::kUsage,
              "expected 'lead', 'rank', 'relay' or 'sshd', {}; see dlrun-agent --help",
              arguments.empty() ? "but there is no argument" : "not '" + printable(command) + "'");
}

}  // namespace dlrun::agent
