#include "common/quoting.h"

#include <doctest/doctest.h>

#include "common/subprocess.h"

namespace dlrun {
namespace {

const std::vector<std::string>& hostile_texts() {
  static const std::vector<std::string> kTexts{"",
                                               " ",
                                               "a b",
                                               "'",
                                               "\"",
                                               "\\",
                                               "$HOME",
                                               "$(touch canary)",
                                               "`id`",
                                               "#x",
                                               "-n",
                                               "a\nb",
                                               "\\'\"\n touch canary",
                                               "*",
                                               "~",
                                               "!!",
                                               "gr\xc3\xbc\xc3\x9f",
                                               "a\tb",
                                               "=x",
                                               "{a,b}",
                                               "x;y",
                                               "x&y",
                                               "\xff\xfe",
                                               "end\\"};
  return kTexts;
}

}  // namespace

TEST_CASE("a shell reads every quoted text back byte for byte") {
  for (const std::string& text : hostile_texts()) {
    Command command{.argv = {"sh", "-c", "printf %s " + shell_quote(text)},
                    .env = Env::of_process(),
                    .stdin_text = {},
                    .directory = {}};
    const auto finished = run_command(command);
    REQUIRE(finished.has_value());
    CHECK(finished->out == text);
  }
}

TEST_CASE("a carriage return is written as an escape that bash reads back") {
  for (const std::string text : {"\r", "a\r\nb", "'\r\\'", "\r\n$(touch canary)\r"}) {
    const std::string quoted = shell_quote(text);
    CHECK(quoted.find('\r') == std::string::npos);
    Command command{.argv = {"bash", "-c", "printf %s " + quoted},
                    .env = Env::of_process(),
                    .stdin_text = {},
                    .directory = {}};
    const auto finished = run_command(command);
    REQUIRE(finished.has_value());
    CHECK(finished->out == text);
  }
}

TEST_CASE("plain words are not quoted") {
  CHECK(shell_quote("/scratch/x-1.0:ro") == "/scratch/x-1.0:ro");
  CHECK(shell_quote_all(std::vector<std::string>{"python", "-u", "my file.py"}) ==
        "python -u 'my file.py'");
}

TEST_CASE(
    "an #SBATCH value is put in double quotes if needed, and a backslash or double quote in it is "
    "escaped") {
  CHECK(*sbatch_quote("gpu:4") == "gpu:4");
  CHECK(*sbatch_quote("") == "\"\"");
  CHECK(*sbatch_quote("a#b") == "\"a#b\"");
  CHECK(*sbatch_quote("it's $(x)") == "\"it's $(x)\"");
  CHECK(*sbatch_quote("\\\"") == "\"\\\\\\\"\"");
}

TEST_CASE("an #SBATCH value with a control character is refused with its position") {
  const auto refused = sbatch_quote("ab\ncd");
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message.find("0x0a at offset 2") != std::string::npos);
  CHECK_FALSE(sbatch_quote("\x7f").has_value());
}

}  // namespace dlrun
