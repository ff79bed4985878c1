#include "cli/terminal/questions.h"

#include <istream>
#include <string>

#include "common/text.h"
#include "launcher/spec/init_questions.h"

namespace dlrun {

Result<> ask_questions(InitAnswers& answers, const SiteProfile& site, std::istream& in,
                       const std::function<void(const Text&)>& say) {
  InitQuestions questions(answers, site);
  while (const auto question = questions.next()) {
    for (const auto& [name, help] : question->choices) say(text("  {:<24} {}\n", name, help));
    for (bool is_answered = false; !is_answered;) {
      say(question->fallback.empty() ? text("{}: ", question->text)
                                     : text("{} [{}]: ", question->text, question->fallback));
      std::string line;
      if (!std::getline(in, line)) {
        say(text("\n"));
        return fail(Errc::kInterrupted, "no answer: nothing is written");
      }
      const std::string answer(trim(line));
      const auto stored = answer.empty() ? Result<>() : question->store(answer);
      if (!stored) say(text("  {}\n", stored.error().message));
      is_answered = stored.has_value();
    }
  }
  return {};
}

bool ask_yes_or_no(std::string_view question, std::istream& in,
                   const std::function<void(const Text&)>& say) {
  say(text("{} [y/N] ", question));
  std::string line;
  if (!std::getline(in, line)) {
    say(text("\n"));
    return false;
  }
  const std::string_view answer = trim(line);
  return answer == "y" || answer == "Y" || answer == "yes";
}

}  // namespace dlrun
