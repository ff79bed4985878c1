// The options of `rank`.

#include <algorithm>
#include <array>

#include "common/text.h"
#include "runtime/agent/command_options.h"
#include "runtime/agent/option_table.h"

namespace dlrun::agent {
namespace {

std::vector<Option> options_of_checks(RankOptions& rank) {
  return {{"--preflight",
           [&rank](std::string_view value) -> Result<> {
             DLRUN_TRY_ASSIGN(auto checks, NodeChecks::parse(value));
             checks.figures = rank.checks.figures;
             checks.user_lines = std::move(rank.checks.user_lines);
             rank.checks = std::move(checks);
             return {};
           },
           {}},
          {"--preflight-run",
           [&rank](std::string_view value) -> Result<> {
             rank.checks.user_lines.emplace_back(value);
             return {};
           },
           {}},
          {"--fabric", parsed_into(FabricFigures::parse, rank.checks.figures), {}}};
}

std::vector<Option> options_of_profile(RankOptions& rank) {
  return {{"--profile",
           [&rank](std::string_view value) -> Result<> {
             constexpr std::array<std::string_view, 3> kTools{"nsys", "py-spy", "perf"};
             if (std::find(kTools.begin(), kTools.end(), value) == kTools.end())
               return fail(Errc::kUsage, "--profile '{}' is none of nsys, py-spy, perf",
                           printable(value));
             rank.profile.tool = value;
             return {};
           },
           {}},
          {"--profile-ranks",
           [&rank](std::string_view value) { return rank.profile.set_ranks(value); },
           {}},
          {"--profile-delay",
           number_into("--profile-delay", "seconds", 0, 1 << 30, rank.profile.delay_s),
           {}},
          {"--profile-for",
           number_into("--profile-for", "seconds", 1, 1 << 30, rank.profile.length_s),
           {}}};
}

std::vector<Option> options_of_rank(RankOptions& rank) {
  return {{"--env",
           [&rank](std::string_view value) -> Result<> {
             auto parsed = EnvTemplate::parse(value);
             if (!parsed) return tl::unexpected<Error>(std::move(parsed.error()));
             rank.templates.push_back(std::move(*parsed));
             return {};
           },
           {}},
          {"--word",
           [&rank](std::string_view value) -> Result<> {
             auto parsed = Template::parse(value);
             if (!parsed) return within("--word", parsed.error());
             rank.words.push_back(std::move(*parsed));
             return {};
           },
           {}},
          {"--nproc-per-node",
           [&rank](std::string_view value) -> Result<> {
             const auto count = parse_int(value);
             if (!count || *count < 1 || *count > kLargestCountOnNode) {
               return fail(Errc::kUsage, "--nproc-per-node '{}' is not a number from 1 to {}",
                           printable(value), kLargestCountOnNode);
             }
             rank.nproc_per_node = static_cast<int>(*count);
             return {};
           },
           {}},
          {"--roles", parsed_into(Roles::parse, rank.roles), {}},
          {"--secret",
           [&rank](std::string_view value) -> Result<> {
             if (value.empty() || value.find('=') != std::string_view::npos) {
               return fail(Errc::kUsage, "--secret takes only the name of a variable");
             }
             rank.secrets.emplace_back(value);
             return {};
           },
           {}},
          {"--tmpdir",
           [&rank](std::string_view value) -> Result<> {
             rank.tmpdir = value;
             return {};
           },
           {}},
          {"--stage", item_into(StageItem::parse, rank.stage), {}},
          {"--output", item_into(OutputItem::parse, rank.outputs), {}},
          {"--bundled", {}, [&rank] { rank.program_is_bundled = true; }}};
}

}  // namespace

Result<RankOptions> parse_rank(const std::vector<std::string>& arguments) {
  RankOptions rank;
  auto options = options_of_rank(rank);
  for (auto&& group : {options_of_checks(rank), options_of_profile(rank)})
    options.insert(options.end(), group.begin(), group.end());
  auto command = read_options(arguments, options);
  if (!command) return tl::unexpected<Error>(std::move(command.error()));
  rank.program = std::move(*command);
  return rank;
}

}  // namespace dlrun::agent
