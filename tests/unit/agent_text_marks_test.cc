// Tests the separation of texts on srun's standard error: agents mark what programs print, and lead
// removes the marks.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "common/files.h"
#include "common/text.h"
#include "runtime/agent/line_holder.h"
#include "runtime/agent/text_marks.h"

namespace dlrun::agent {
namespace {

using Clock = TextMarker::Clock;

TextMarks marks() {
  Key secret{};
  secret.fill(7);
  return marks_of(secret);
}

std::vector<std::string> slurm_lines() {
  const auto text = read_file(DLRUN_SOURCE_DIR "/tests/reference/slurm_lines.txt", 1U << 20U);
  REQUIRE(text);
  std::vector<std::string> lines;
  for (const auto line : split(*text, '\n')) {
    if (!line.empty() && !line.starts_with('#')) lines.emplace_back(line);
  }
  return lines;
}

/// Lead's side, which reads srun's standard error.
struct Lead {
  std::vector<std::string> unmarked;  ///< whole lines without marks: those of Slurm
  MarkedTextReader reader{marks(), [this](std::string_view line) { unmarked.emplace_back(line); }};

  std::string read(std::string_view bytes) { return reader.read(bytes); }
};

/// Returns the whole text with the marks that an agent adds.
std::string marked(std::string_view text) {
  TextMarker marker(marks());
  auto out = marker.add(text, Clock::time_point());
  return out + marker.take_rest();
}

TEST_CASE("an open line is held until it ends, is old or is too long") {
  LineHolder holder(10);
  const Clock::time_point start;
  CHECK(holder.add("a\nb", start) == "a\n");
  CHECK(holder.held_bytes() == 1);
  CHECK(holder.add("c\n", start) == "bc\n");
  CHECK(holder.add("\r50%", start) == "\r");
  CHECK(holder.deadline() == start + LineHolder::kOpenLimit);
  CHECK(holder.take_late(start + LineHolder::kOpenLimit / 2).empty());
  CHECK(holder.take_late(start + LineHolder::kOpenLimit) == "50%");
  CHECK(holder.add("123456789", start).empty());
  CHECK(holder.add("0", start) == "1234567890");
  CHECK(holder.add("end", start).empty());
  CHECK(holder.take_rest() == "end");
  CHECK(holder.held_bytes() == 0);
  CHECK_FALSE(holder.deadline().has_value());
}

TEST_CASE("lines of a program are not taken for Slurm's, even if they look like Slurm's") {
  for (const auto& line : slurm_lines()) {
    for (const auto& text :
         {line + "\n", line, "50%\r" + line + "\n", "50%" + line, "\n" + line + "\r\n"}) {
      CAPTURE(text);
      Lead lead;
      CHECK(lead.read(marked(text)) == text);
      CHECK(lead.unmarked.empty());
    }
  }
}

TEST_CASE("Slurm's lines are found in the text of ranks, also after a line without a newline") {
  for (const auto& line : slurm_lines()) {
    Lead lead;
    CHECK(lead.read(marked("50%\r") + line + "\n" + marked("100%\n")) ==
          "50%\r\n" + line + "\n100%\n");
    CHECK(lead.unmarked == std::vector<std::string>{line});
  }
}

TEST_CASE(
    "marks differ between attempts, so a line with another attempt's marks is not taken for "
    "Slurm's") {
  Key other{};
  other.fill(8);
  CHECK(marks_of(other).head != marks().head);
  CHECK(marks_of(other).tail != marks().tail);
  CHECK(marks().head != marks().tail);
  Lead lead;
  const auto forged =
      marks_of(other).head + "srun: error: Node failure on n1" + marks_of(other).tail + "\n";
  CHECK(lead.read(marked(forged)) == forged);
  CHECK(lead.unmarked.empty());
}

TEST_CASE("every byte arrives, in pieces of any length and with lines of any length") {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  all += std::string(5000, 'x') + "\n" + std::string(3000, '\x10') + "\n\n\r\r\n" + all;
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{1024}, all.size()}) {
    CAPTURE(piece);
    TextMarker marker(marks());
    Lead lead;
    std::string text;
    for (std::size_t at = 0; at < all.size(); at += piece)
      text += lead.read(marker.add(std::string_view(all).substr(at, piece), Clock::time_point()));
    text += lead.read(marker.take_rest());
    CHECK(text == all);
    CHECK(lead.unmarked.empty());
  }
  const auto bytes = marked(all);
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{1024}}) {
    Lead lead;
    std::string text;
    for (std::size_t at = 0; at < bytes.size(); at += piece)
      text += lead.read(std::string_view(bytes).substr(at, piece));
    CHECK(text == all);
  }
}

TEST_CASE("a marked line is shorter than slurmstepd's buffer, so that it arrives in one piece") {
  const auto text = marked(std::string(100'000, '\x1e') + std::string(100'000, 'x') + "\n");
  for (const auto line : split(text, '\n')) CHECK(line.size() < TextMarker::kMarkedLineLimitBytes);
}

TEST_CASE("an unfinished line waits for its end, but not longer than the limit") {
  TextMarker marker(marks());
  const Clock::time_point start{};
  Lead lead;
  CHECK(marker.add("a\nb", start) == marked("a\n"));
  CHECK(marker.take_late(start + TextMarker::kOpenLimit / 2).empty());
  CHECK(marker.held_bytes() == 1);
  CHECK(lead.read(marker.mark_own_line("dlrun: rank 0: x\n")) == "dlrun: rank 0: x\n");
  CHECK(lead.read(marker.take_late(start + TextMarker::kOpenLimit)) == "b");
  CHECK(marker.held_bytes() == 0);
}

TEST_CASE("a line that is split by another rank's lines is not taken for Slurm's") {
  const auto split_line = marked("first srun: error: Node failure on n1\n");
  const auto whole = marked("second\n");
  for (std::size_t at = 0; at <= split_line.size(); ++at) {
    CAPTURE(at);
    Lead lead;
    const auto text = lead.read(split_line.substr(0, at) + whole + split_line.substr(at) + whole);
    for (const auto& line : lead.unmarked) CHECK(line.find("srun") == std::string::npos);
    CHECK(text.find("second\n") != std::string::npos);
  }
}

TEST_CASE("srun's labels are kept at the start of each line, and only there") {
  Lead lead;
  const auto mark = [](std::string_view text) { return TextMarker(marks()).mark_own_line(text); };
  CHECK(lead.read(" 0: " + mark("a\nb\nc")) == " 0: a\n 0: b\n 0: c");
  CHECK(lead.read(" 0: " + mark("d\n")) == "d\n");
  CHECK(lead.read(" 0: " + mark("50%") + "10: " + mark("60%\n")) == " 0: 50%\n10: 60%\n");
  CHECK(lead.read("10: slurmstepd: error: x\n") == "10: slurmstepd: error: x\n");
  CHECK(lead.unmarked == std::vector<std::string>{"10: slurmstepd: error: x"});
}

TEST_CASE("text without marks is passed on, and a long line is passed on before its end") {
  Lead lead;
  CHECK(lead.read("Loading image") == "");
  CHECK(lead.read(marked("a\n")) == "Loading imagea\n");
  CHECK(lead.read(std::string(5000, 'x')) == std::string(5000, 'x'));
  CHECK(lead.read("y\nsrun: z\n") == "y\nsrun: z\n");
  CHECK(lead.unmarked == std::vector<std::string>{"srun: z"});
  CHECK(lead.read("rest") == "");
  CHECK(lead.reader.take_rest() == "rest");
}

TEST_CASE(
    "a line longer than the limit is not taken for Slurm's, whether it arrives in one piece or in "
    "several") {
  const auto limit = MarkedTextReader::kLineLimitBytes;
  for (const std::size_t length : {limit, limit + 1}) {
    const auto line = std::string(length, 'x');
    const auto expected =
        length > limit ? std::vector<std::string>{} : std::vector<std::string>{line};
    for (const std::size_t piece : {std::size_t{1}, std::size_t{1024}, length - 1, length + 1}) {
      CAPTURE(length);
      CAPTURE(piece);
      Lead lead;
      std::string text;
      const auto bytes = line + "\n";
      for (std::size_t at = 0; at < bytes.size(); at += piece)
        text += lead.read(std::string_view(bytes).substr(at, piece));
      CHECK(text == bytes);
      CHECK(lead.unmarked == expected);
    }
  }
}

TEST_CASE(
    "options and variables that make srun write the ranks' standard error to a file are "
    "recognised") {
  const Env none;
  const auto goes_to_files = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "srun");
    words.insert(words.end(),
                 {"/tools/dlrun-agent", "rank", "--", "program", "-o", "file", "--output=file"});
    return rank_stderr_goes_to_files(words, none);
  };
  for (const auto& words : std::vector<std::vector<std::string>>{{"--output=%t.out"},
                                                                 {"--error", "x"},
                                                                 {"-e", "x"},
                                                                 {"-ox"},
                                                                 {"-lo", "x"},
                                                                 {"--outp=x"},
                                                                 {"--err=x"}}) {
    CAPTURE(words.front());
    CHECK(goes_to_files(words));
  }
  for (const auto& words : std::vector<std::vector<std::string>>{{},
                                                                 {"--output=all"},
                                                                 {"-o0"},
                                                                 {"--error", "none"},
                                                                 {"--exclusive"},
                                                                 {"-n2"},
                                                                 {"-kofile"},
                                                                 {"-qofile"},
                                                                 {"--open-mode=append"},
                                                                 {"--export=ALL"},
                                                                 {"-l"},
                                                                 {"-w", "node"},
                                                                 {"-woe"},
                                                                 {"-O"}}) {
    CAPTURE((words.empty() ? "" : words.front()));
    CHECK_FALSE(goes_to_files(words));
  }
  Env env;
  env.set("SRUN_ERROR", "file");
  CHECK(rank_stderr_goes_to_files({"srun", "dlrun-agent"}, env));
}

TEST_CASE(
    "srun's option and variable for unbuffered output are removed, because they would tear lines") {
  Env env;
  env.set("SLURM_UNBUFFEREDIO", "1");
  std::vector<std::string> argv{"srun",        "-u",   "-n2", "--unbuffered", "-lu",
                                "--unbuf",     "-suo", "f-u", "-qurgent",     "--use",
                                "dlrun-agent", "rank", "--",  "python",       "-u"};
  keep_lines_whole(argv, env);
  CHECK(argv == std::vector<std::string>{"srun", "-n2", "-l", "-so", "f-u", "-qurgent", "--use",
                                         "dlrun-agent", "rank", "--", "python", "-u"});
  CHECK_FALSE(env.has("SLURM_UNBUFFEREDIO"));
}

}  // namespace
}  // namespace dlrun::agent
