#include "launcher/spec/init_questions.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "common/text.h"
#include "launcher/spec/config_reader.h"
#include "launcher/spec/spec_builder.h"
#include "launcher/spec/value_syntax.h"

namespace dlrun {
namespace {

using MaybeQuestion = std::optional<InitQuestion>;

/// Returns a question for an optional value. Any text is a valid answer, and is stored in `into`.
/// After an empty answer or "none", `into` stays nullopt.
InitQuestion optional_text_question(std::string text, std::optional<std::string>& into) {
  return {std::move(text), "none", {}, [&into](const std::string& answer) -> Result<> {
            if (answer != "none") into = answer;
            return {};
          }};
}

MaybeQuestion name_question(InitAnswers& answers, const SiteProfile&) {
  if (answers.name) return std::nullopt;
  return InitQuestion{
      "Name of the experiment", "hello", {}, [&answers](const std::string& answer) -> Result<> {
        if (!is_slug(answer))
          return fail(Errc::kInvalid,
                      "'{}' is not a name: use at most 64 letters, digits, '.', '_' and '-', "
                      "starting with neither '-' nor '.'",
                      printable(answer));
        answers.name = answer;
        return {};
      }};
}

MaybeQuestion partition_question(InitAnswers& answers, const SiteProfile& site) {
  if (answers.partition) return std::nullopt;
  InitQuestion question{
      "Partition",
      site.default_partition.empty() ? "the cluster's default" : site.default_partition,
      {},
      [&answers, &site](const std::string& answer) -> Result<> {
        if (!site.partitions.empty() && !site.partitions.contains(answer)) {
          std::vector<std::string> known;
          for (const auto& [name, partition] : site.partitions) known.push_back(name);
          return fail(Errc::kInvalid,
                      "'{}' is not one of the partitions: {}; --partition accepts any name",
                      printable(answer), join(known, ", "));
        }
        answers.partition = answer;
        return {};
      }};
  for (const auto& [name, partition] : site.partitions) {
    question.choices.emplace_back(name,
                                  partition.help.empty() && partition.gpus_per_node
                                      ? fmt::format("{} GPUs per node", *partition.gpus_per_node)
                                      : partition.help);
  }
  return question;
}

MaybeQuestion nodes_question(InitAnswers& answers, const SiteProfile&) {
  if (answers.nodes) return std::nullopt;
  return InitQuestion{"Nodes", "1", {}, [&answers](const std::string& answer) -> Result<> {
                        DLRUN_TRY_ASSIGN(const auto nodes, parse_nodes(answer));
                        if (nodes.max != nodes.min)
                          return fail(
                              Errc::kInvalid,
                              "'{}' is a range; give one number here (the spec accepts a range)",
                              printable(answer));
                        answers.nodes = nodes.min;
                        return {};
                      }};
}

MaybeQuestion gpus_question(InitAnswers& answers, const SiteProfile& site) {
  if (answers.gpus_per_node) return std::nullopt;
  const Gpus default_gpus = *answers_with_defaults(answers, site).gpus_per_node;
  return InitQuestion{"GPUs of each node, or TYPE:N",
                      format_gpus(default_gpus),
                      {},
                      [&answers, &site](const std::string& answer) -> Result<> {
                        DLRUN_TRY_ASSIGN(auto gpus, parse_gpus(answer));
                        if (site.max_gpus_per_node && gpus.count > *site.max_gpus_per_node)
                          return fail(Errc::kInvalid, "site '{}' has at most {} GPUs per node",
                                      site.name, *site.max_gpus_per_node);
                        answers.gpus_per_node = std::move(gpus);
                        return {};
                      }};
}

MaybeQuestion time_question(InitAnswers& answers, const SiteProfile& site) {
  if (answers.time) return std::nullopt;
  return InitQuestion{"Time limit",
                      *answers_with_defaults(answers, site).time,
                      {},
                      [&answers](const std::string& answer) -> Result<> {
                        if (auto limit = parse_time_limit(answer); !limit)
                          return tl::unexpected(limit.error());
                        answers.time = answer;
                        return {};
                      }};
}

MaybeQuestion account_question(InitAnswers& answers, const SiteProfile&) {
  if (answers.account) return std::nullopt;
  return optional_text_question("Account, if the cluster requires one", answers.account);
}

MaybeQuestion image_question(InitAnswers& answers, const SiteProfile& site) {
  if (answers.image || runtime_of(answers, site) == "none") return std::nullopt;
  return optional_text_question("Container image", answers.image);
}

MaybeQuestion command_question(InitAnswers& answers, const SiteProfile&) {
  if (!answers.command.empty()) return std::nullopt;
  // The answer is a line for a shell, so that quotes work as usual.
  return InitQuestion{"Command of each rank",
                      "one that says hello",
                      {},
                      [&answers](const std::string& answer) -> Result<> {
                        answers.command = {"bash", "-c", answer};
                        return {};
                      }};
}

/// Returns true if the program of the command, or of its line for a shell, is Python.
bool starts_python(const std::vector<std::string>& command) {
  if (command.empty()) return false;
  const bool is_shell_line = command.size() == 3 && command[0] == "bash" && command[1] == "-c";
  std::string_view program = is_shell_line ? command[2] : command[0];
  program = program.substr(0, program.find(' '));
  return program.substr(program.rfind('/') + 1).starts_with("python");
}

/// Returns the question about the preset, but only if the command starts Python. The framework of a
/// Python program decides the preset, and dlrun does not know the framework.
MaybeQuestion preset_question(InitAnswers& answers, const SiteProfile&) {
  if (answers.preset || !starts_python(answers.command)) return std::nullopt;
  InitQuestion question{"Preset that starts the program", "plain", {}, {}};
  std::vector<std::string> names;
  for (const Preset& preset : read_presets({})) {
    if (preset.needs_components || preset.is_trainer) continue;
    names.push_back(preset.name);
    // The first sentence is enough to choose.
    const auto end = std::min(preset.help.find(". "), preset.help.size());
    question.choices.emplace_back(preset.name, preset.help.substr(0, end));
  }
  question.store = [&answers, names](const std::string& answer) -> Result<> {
    if (std::find(names.begin(), names.end(), answer) == names.end())
      return fail(Errc::kInvalid, "'{}' is not one of the presets: {}; --preset accepts any name",
                  printable(answer), join(names, ", "));
    answers.preset = answer;
    return {};
  };
  return question;
}

constexpr std::array kQuestions{name_question,  partition_question, nodes_question,
                                gpus_question,  time_question,      account_question,
                                image_question, command_question,   preset_question};

}  // namespace

std::optional<InitQuestion> InitQuestions::next() {
  while (next_index_ < kQuestions.size()) {
    if (auto question = kQuestions[next_index_++](answers_, site_)) return question;
  }
  return std::nullopt;
}

}  // namespace dlrun
