#include <doctest/doctest.h>

#include "common/sha256.h"
#include "launcher/runs/carried_spec.h"

namespace dlrun {
namespace {

CarriedSpec example() {
  return {"name: a\nvars:\n  X: \"#| not this\\n\"\n", "1.2.3", "/exp 1", "/runs of mine",
          "/runs of mine/.agents/3f2a/dlrun-agent",    ""};
}

TEST_CASE("the spec in a script can be read back") {
  const std::string script = "#!/bin/bash\nexec agent\n";
  const std::string text = with_carried_spec(script, example());
  CHECK(text.starts_with(script));
  const auto carried = carried_spec(text);
  REQUIRE(carried.has_value());
  CHECK(carried->yaml == example().yaml);
  CHECK(carried->version == "1.2.3");
  CHECK(carried->folder == "/exp 1");
  CHECK(carried->runs_dir == example().runs_dir);
  CHECK(carried->agent == example().agent);
  CHECK(carried->sha256 == sha256_of_text(script));
  CHECK(script + carried_lines(text) == text);
  CHECK(without_carried_spec(text).starts_with(script));
  CHECK(without_carried_spec(text).find("X:") == std::string::npos);
}

TEST_CASE("the spec in a script consists of comments, whatever it contains") {
  auto hostile = example();
  hostile.version = "1\n$(touch canary)";
  hostile.yaml = "a: \"x\"\n\n'; touch canary #\n";
  const std::string text = with_carried_spec("true\n", hostile);
  std::size_t line_begin = text.find('\n') + 1;
  for (; line_begin < text.size(); line_begin = text.find('\n', line_begin) + 1)
    CHECK(text[line_begin] == '#');
}

TEST_CASE(
    "an edited script still carries its spec, and a script that lost a part of the spec carries "
    "none") {
  const std::string text = with_carried_spec("#!/bin/bash\nexec agent\n", example());
  CHECK(carried_spec("# mine\n" + text + "# more\n").has_value());
  CHECK_FALSE(carried_spec("#!/bin/bash\n#| name: a\n").has_value());
  CHECK_FALSE(carried_spec("#!/bin/bash\n#: {\"runs\": 3}\n#| name: a\n").has_value());
  CHECK_FALSE(carried_spec("#!/bin/bash\n#: no json\n#| name: a\n").has_value());
  CHECK_FALSE(carried_spec("").has_value());
}

TEST_CASE(
    "the error for an unreadable spec in a script has the line, and similar comments without a "
    "spec are no fault") {
  const std::string text = with_carried_spec("#!/bin/bash\nexec agent\n", example());
  const auto fault_after_edit = [&](std::string_view from, std::string_view to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    return fault_of_carried_spec(changed);
  };
  const auto line_of = [](const std::optional<CarriedFault>& fault) {
    return fault ? fault->line : 0;
  };
  CHECK(line_of(fault_after_edit("#: {", "#: {{")) == 4);
  CHECK(fault_after_edit("#: {", "#: {{")->what == "the text after '#: ' is no JSON object");
  CHECK(line_of(fault_after_edit("#: {", "# {")) == 3);
  CHECK(line_of(fault_after_edit("\"folder\"", "\"folded\"")) == 4);
  CHECK(line_of(fault_of_carried_spec(text.substr(0, text.find("#| ")))) == 4);
  // The comment line before the line `#: {...}` is missing.
  CHECK(line_of(fault_of_carried_spec("#!/bin/bash\n#: {{\n#| name: a\n")) == 2);
  CHECK(line_of(fault_of_carried_spec("#!/bin/bash\n#: mine\n" + text)) == 2);
  CHECK_FALSE(fault_of_carried_spec(text));
  CHECK_FALSE(fault_of_carried_spec("# mine\n" + text + "# more\n"));
  CHECK_FALSE(fault_of_carried_spec(without_carried_spec(text)));
  // After the user has removed all lines of the spec, no fault is left.
  CHECK_FALSE(fault_of_carried_spec(text.substr(0, text.find("#: "))));
  for (const char* script_without_spec :
       {"", "#!/bin/sh\n#: a note\n#SBATCH -n 1\n", "#!/bin/sh\n#| a box |\n#: a note\n",
        "#!/bin/sh\n#| a box |\n#| of words |\n"})
    CHECK_FALSE(fault_of_carried_spec(script_without_spec));
}

TEST_CASE("a script counts as edited if one of its lines before the spec begins with '#: '") {
  // The line '#: mine' looks like the line `#: {...}`, but has no JSON, so dlrun finds no spec.
  const std::string text =
      with_carried_spec("#!/bin/bash\n#: mine\nexec agent\n", {"a: 1\n", "1", "/f", "/r", "", ""});
  CHECK(is_unedited(text) == false);
}

TEST_CASE(
    "an edited script and a hand-written script are distinguished from an unchanged rendered "
    "script") {
  const std::string rendered = with_carried_spec("#!/bin/bash\nexec agent\n", example());
  CHECK(is_unedited(rendered));
  CHECK_FALSE(is_unedited(rendered + "echo more\n"));
  CHECK_FALSE(is_unedited("#!/bin/bash\n# mine\n" + rendered.substr(12)));
  CHECK_FALSE(is_unedited("#!/bin/bash\nexec agent\n"));
  CHECK_FALSE(is_unedited(""));
}

TEST_CASE("the SHA-256 of a text matches the example of FIPS 180-4") {
  CHECK(sha256_of_text("abc") ==
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace dlrun
