#include "cli/questions.h"

#include <functional>
#include <istream>

#include <fmt/format.h>

#include "common/text.h"
#include "launcher/spec/spec_builder.h"
#include "launcher/spec/units.h"

namespace dlrun {
namespace {

/// Takes an answer, or fails with the reason why it is invalid.
using Take = std::function<Result<>(const std::string&)>;

/// Shows text at once.
using Say = std::function<void(const Text&)>;

[[nodiscard]] Result<> ask(std::istream& in, const Say& say, std::string_view question,
                           std::string_view fallback, const Take& take) {
  while (true) {
    say(fallback.empty() ? text("{}: ", question) : text("{} [{}]: ", question, fallback));
    std::string line;
    if (!std::getline(in, line)) {
      say(text("\n"));
      return fail(Errc::kInterrupted, "no answer: nothing is written");
    }
    const std::string answer(trim(line));
    if (answer.empty()) return {};
    if (auto taken = take(answer); !taken) {
      say(text("  {}\n", taken.error().message));
      continue;
    }
    return {};
  }
}

[[nodiscard]] Take any_text(std::optional<std::string>& into) {
  return [&into](const std::string& answer) -> Result<> {
    into = answer;
    return {};
  };
}

}  // namespace

Result<> ask_questions(InitAnswers& answers, const SiteProfile& site, std::istream& in,
                       const Say& say) {
  if (!answers.name) {
    DLRUN_TRY(
        ask(in, say, "Name of the experiment", "hello", [&](const std::string& answer) -> Result<> {
          if (!is_slug(answer))
            return fail(Errc::kInvalid, "letters, digits, '.', '_' and '-', at most 64");
          answers.name = answer;
          return {};
        }));
  }
  if (!answers.partition) {
    for (const auto& [name, partition] : site.partitions) {
      say(text("  {:<24} {}\n", name,
               partition.help.empty() && partition.gpus_per_node
                   ? fmt::format("{} GPUs per node", *partition.gpus_per_node)
                   : partition.help));
    }
    DLRUN_TRY(ask(in, say, "Partition",
                  site.default_partition.empty() ? "the cluster's default" : site.default_partition,
                  [&](const std::string& answer) -> Result<> {
                    if (!site.partitions.empty() && !site.partitions.contains(answer)) {
                      std::vector<std::string> known;
                      for (const auto& [name, partition] : site.partitions) known.push_back(name);
                      return fail(Errc::kInvalid, "'{}' is none of {}; --partition takes any",
                                  printable(answer), join(known, ", "));
                    }
                    answers.partition = answer;
                    return {};
                  }));
  }
  if (!answers.nodes) {
    DLRUN_TRY(ask(in, say, "Nodes", "1", [&](const std::string& answer) -> Result<> {
      const auto nodes = parse_nodes(answer);
      if (!nodes) return tl::unexpected(nodes.error());
      if (nodes->max != nodes->min)
        return fail(Errc::kInvalid, "'{}' is a range; give one number, the spec takes a range",
                    answer);
      answers.nodes = nodes->min;
      return {};
    }));
  }
  if (!answers.gpus_per_node) {
    const Gpus by_default = *complete(answers, site).gpus_per_node;
    DLRUN_TRY(ask(in, say, "GPUs of each node, or TYPE:N", format_gpus(by_default),
                  [&](const std::string& answer) -> Result<> {
                    auto gpus = parse_gpus(answer);
                    if (!gpus) return tl::unexpected(gpus.error());
                    if (site.max_gpus_per_node && gpus->count > *site.max_gpus_per_node)
                      return fail(Errc::kInvalid, "site '{}' has at most {} GPUs per node",
                                  site.name, *site.max_gpus_per_node);
                    answers.gpus_per_node = std::move(*gpus);
                    return {};
                  }));
  }
  if (!answers.time) {
    DLRUN_TRY(ask(in, say, "Time limit", *complete(answers, site).time,
                  [&](const std::string& answer) -> Result<> {
                    if (auto limit = parse_time_limit(answer); !limit)
                      return tl::unexpected(limit.error());
                    answers.time = answer;
                    return {};
                  }));
  }
  if (!answers.account)
    DLRUN_TRY(
        ask(in, say, "Account, where the cluster wants one", "none", any_text(answers.account)));
  if (!answers.image && runtime_of(answers, site) != "none")
    DLRUN_TRY(ask(in, say, "Container image", "none", any_text(answers.image)));
  if (answers.command.empty()) {
    // The answer is one shell line, so quotes work as at a prompt.
    DLRUN_TRY(ask(in, say, "Command of each rank", "one that says hello",
                  [&](const std::string& answer) -> Result<> {
                    answers.command = {"bash", "-c", answer};
                    return {};
                  }));
  }
  return {};
}

}  // namespace dlrun
