// Tests how shell scripts are read as text.

#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "launcher/import/shell_text.h"

namespace dlrun {
namespace {

std::vector<std::string> literals(const ShellCommand& command) {
  std::vector<std::string> words;
  for (const ShellWord& word : command.words) words.push_back(word.literal());
  return words;
}

TEST_CASE("words lose their quotes as in a shell, and keep their bytes") {
  const auto commands =
      read_shell("#!/bin/bash\na 'b c' \"d \\\"e\\\" \\$f\" g\\ h i\\\nj '' # k\n\tlast\n");
  REQUIRE(commands.size() == 2);
  CHECK(literals(commands[0]) ==
        std::vector<std::string>{"a", "b c", "d \"e\" $f", "g h", "ij", ""});
  CHECK(commands[0].line == 2);
  CHECK(commands[1].line == 4);
  CHECK(literals(commands[1]) == std::vector<std::string>{"last"});
}

TEST_CASE(
    "a variable, the home directory and $(pwd) are parts of a word, and a word with other forms is "
    "complex") {
  const auto commands = read_shell("x $A/b \"${C}d\" '$E' ~/f $(pwd)/g V=~/h\n");
  REQUIRE(commands.size() == 1);
  const auto& words = commands[0].words;
  REQUIRE(words.size() == 7);
  CHECK(words[1].parts[0].is_variable);
  CHECK_FALSE(words[1].parts[0].is_quoted);
  CHECK(words[1].parts[1].text == "/b");
  CHECK(words[2].parts[0].text == "C");
  CHECK(words[2].parts[0].is_quoted);
  CHECK(words[3].literal() == "$E");
  CHECK(words[4].parts[0].text == "HOME");
  CHECK(words[5].parts[0].text == "PWD");
  CHECK(words[6].parts[1].text == "HOME");
  for (const ShellWord& word : words) CHECK_FALSE(word.is_complex);
  for (const char* text : {"$(date)", "`date`", "${A:-b}", "${A[0]}", "$1", "$?", "*.py", "a?",
                           "{1,2}", "$((1 + 2))", "$'a'", "~user/x", "*", "?"}) {
    INFO(text);
    const auto one = read_shell(std::string("x ") + text + "\n");
    REQUIRE(one.size() == 1);
    REQUIRE(one[0].words.size() == 2);
    CHECK(one[0].words[1].is_complex);
    CHECK(one[0].words[1].literal().empty());
  }
}

TEST_CASE("redirections and pipes are the tail of a command and give it no words") {
  const auto commands = read_shell("srun a > log 2>&1\nsrun b 2>err | tee log\nsrun c 3\n");
  REQUIRE(commands.size() == 3);
  CHECK(literals(commands[0]) == std::vector<std::string>{"srun", "a"});
  CHECK(commands[0].tail == "> log 2>&1");
  CHECK_FALSE(commands[0].has_complex_operator);
  CHECK(literals(commands[1]) == std::vector<std::string>{"srun", "b"});
  CHECK(commands[1].tail == "2>err | tee log");
  CHECK(literals(commands[2]) == std::vector<std::string>{"srun", "c", "3"});
  CHECK(commands[2].tail.empty());
}

TEST_CASE(
    "commands in conditions, loops, functions and subshells are nested, and a command after them "
    "is not") {
  const auto commands = read_shell(
      "if [ -d x ]; then\n  a1\nelse b1; fi\n"
      "for i in 1 2; do a2; done\n"
      "while read -r x; do\n  case $x in\n    y) a3 ;;\n    *) b3 ;;\n  esac\ndone < file\n"
      "f() {\n  a4\n}\n"
      "function g { a5; }\n"
      "case $x in y) a8;; *) b8;; esac\n"
      "h() ( a9 )\n"
      "( a6; b6 )\n(\n  a7\n)\n"
      "after\n");
  for (const ShellCommand& command : commands) {
    INFO(command.source);
    CHECK(command.is_nested == (command.source != "after"));
  }
  REQUIRE(!commands.empty());
  CHECK(commands.back().source == "after");
}

TEST_CASE(
    "&&, ||, & and here-documents are complex operators, and the text of a here-document has no "
    "commands") {
  const auto commands = read_shell(
      "a && b\nc || d\ne &\ncat <<EOF > file\nsrun not-a-command\nEOF\ncat <<-'END'\n\tx\n\tEND\n"
      "f; g\n");
  std::vector<std::string> complex, plain;
  for (const ShellCommand& command : commands)
    (command.has_complex_operator ? complex : plain).push_back(command.words.front().literal());
  CHECK(complex == std::vector<std::string>{"a", "c", "e", "cat", "cat"});
  CHECK(plain == std::vector<std::string>{"f", "g"});
}

TEST_CASE("the rest of a script after an open quote or a stray end of a block is nested") {
  for (const char* text : {"a\nb 'c\nsrun d\n", "a\nb \"c\nsrun d\n", "a\nb $(c\nsrun d\n",
                           "a\nb `c\nsrun d\n", "a\nfi\nsrun d\n", "a\n}\nsrun d\n"}) {
    INFO(text);
    const auto commands = read_shell(text);
    REQUIRE(commands.size() >= 2);
    CHECK_FALSE(commands[0].is_nested);
    for (std::size_t i = 1; i < commands.size(); ++i) CHECK(commands[i].is_nested);
  }
}

TEST_CASE(
    "three thousand random texts are read without a fault, and each of their words has a part") {
  const std::string pieces = "a'\"$(){}`\\\n;&|<>#=~*[ \t1";
  std::uint32_t state = 1;
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (int i = 0; i < 40; ++i) {
      state = state * 1664525U + 1013904223U;
      text += pieces[(state >> 16U) % pieces.size()];
    }
    INFO(text);
    for (const ShellCommand& command : read_shell(text)) {
      CHECK(command.line >= 1);
      for (const ShellWord& word : command.words) CHECK_FALSE(word.parts.empty());
    }
  }
}

}  // namespace
}  // namespace dlrun
