// Checks the sources against the rules of ARCHITECTURE.md, and the tests against some rules for
// tests. Also checks that every test that tests/PAINS.md or docs/security.md names exists.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

namespace {

namespace fs = std::filesystem;

struct Include {
  std::string file;    ///< relative to the repository, generic separators
  std::string target;  ///< as written between the quotes or brackets
};

bool is_source(const fs::path& path) {
  const std::string extension = path.extension();
  return extension == ".h" || extension == ".cc" || extension == ".cu" || extension == ".cuh";
}

std::vector<Include> includes_of(std::string_view folder) {
  std::vector<Include> includes;
  const fs::path top(DLRUN_SOURCE_DIR);
  for (const auto& entry : fs::recursive_directory_iterator(top / folder)) {
    if (!entry.is_regular_file() || !is_source(entry.path())) continue;
    std::ifstream source(entry.path());
    for (std::string line; std::getline(source, line);) {
      if (!line.starts_with("#include")) continue;
      const std::size_t open = line.find_first_of("\"<");
      const std::size_t close = line.find_last_of("\">");
      if (open == std::string::npos || close <= open) continue;
      includes.push_back({fs::relative(entry.path(), top).generic_string(),
                          line.substr(open + 1, close - open - 1)});
    }
  }
  return includes;
}

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

const std::vector<std::string_view> kTopFolders{"cli", "launcher", "container", "runtime",
                                                "common"};

/// Returns the element of kTopFolders with which an include path begins; "" if there is none.
std::string_view top_folder_of(std::string_view include) {
  const std::string_view top = include.substr(0, include.find('/'));
  const auto found = std::find(kTopFolders.begin(), kTopFolders.end(), top);
  return found == kTopFolders.end() ? std::string_view() : *found;
}

/// Checks that the sources of `folder` include no headers from kTopFolders, except those in
/// `folder` itself and in allowed_folders.
void check_includes(std::string_view folder, const std::vector<std::string_view>& allowed_folders) {
  const auto includes = includes_of(folder);
  CHECK_FALSE(includes.empty());
  for (const Include& include : includes) {
    const std::string_view target_folder = top_folder_of(include.target);
    if (target_folder.empty() || target_folder == folder) continue;
    CAPTURE(include.file);
    CAPTURE(include.target);
    CHECK(std::find(allowed_folders.begin(), allowed_folders.end(), target_folder) !=
          allowed_folders.end());
  }
}

/// Checks that only files whose paths start with one of file_prefixes include headers that start
/// with one of header_prefixes.
void check_users_of_headers(const std::vector<std::string_view>& header_prefixes,
                            const std::vector<std::string_view>& file_prefixes) {
  bool is_used = false;
  for (std::string_view folder : kTopFolders) {
    for (const Include& include : includes_of(folder)) {
      const auto is_start_of = [](std::string_view text) {
        return [text](std::string_view start) { return text.starts_with(start); };
      };
      if (std::none_of(header_prefixes.begin(), header_prefixes.end(), is_start_of(include.target)))
        continue;
      is_used = true;
      CAPTURE(include.file);
      CAPTURE(include.target);
      CHECK(std::any_of(file_prefixes.begin(), file_prefixes.end(), is_start_of(include.file)));
    }
  }
  CHECK(is_used);  // a rule without any use checks nothing
}

}  // namespace

TEST_CASE(
    "cli, launcher, container, runtime and common include only the folders that ARCHITECTURE.md "
    "allows") {
  check_includes("cli", {"launcher", "container", "common"});
  check_includes("launcher", {"container", "common"});
  check_includes("container", {"common"});
  check_includes("runtime", {"common"});
  check_includes("common", {});
}

TEST_CASE("CLI11 is included only in cli, and yaml-cpp, libcurl and spdlog in one file each") {
  check_users_of_headers({"CLI/"}, {"cli/"});
  check_users_of_headers({"curl/"}, {"launcher/executors/curl_library.h"});
  check_users_of_headers({"yaml-cpp/", "yaml.h"}, {"launcher/spec/yaml_document.cc"});
  check_users_of_headers({"spdlog/"}, {"common/log.cc"});
}

TEST_CASE(
    "cli includes only the public headers of launcher/runs, and none of launcher/executors and "
    "launcher/download") {
  const std::vector<std::string_view> folders{"launcher/runs/", "launcher/executors/",
                                              "launcher/download/"};
  const std::vector<std::string_view> public_headers{
      "launcher/runs/index.h",   "launcher/runs/notice_relay.h",  "launcher/runs/ownership.h",
      "launcher/runs/resolve.h", "launcher/runs/status.h",        "launcher/runs/sweep_record.h",
      "launcher/runs/tools.h",   "launcher/runs/tracked_record.h"};
  const auto starts_with_one_of = [](const std::vector<std::string_view>& prefixes,
                                     std::string_view text) {
    return std::any_of(prefixes.begin(), prefixes.end(),
                       [text](std::string_view prefix) { return text.starts_with(prefix); });
  };
  std::vector<std::string> used;
  for (const Include& include : includes_of("cli")) {
    if (!starts_with_one_of(folders, include.target)) continue;
    used.push_back(include.target);
    CAPTURE(include.file);
    CAPTURE(include.target);
    CHECK(starts_with_one_of(public_headers, include.target));
  }
  for (const std::string_view header : public_headers) {
    CAPTURE(header);
    // A header that cli does not use need not be public.
    CHECK(std::find(used.begin(), used.end(), header) != used.end());
  }
}

TEST_CASE("no two headers have the same name") {
  std::map<std::string, std::string> paths;
  for (std::string_view folder : kTopFolders) {
    for (const auto& entry :
         fs::recursive_directory_iterator(fs::path(DLRUN_SOURCE_DIR) / folder)) {
      if (entry.path().extension() != ".h") continue;
      const auto [first, is_new] =
          paths.emplace(entry.path().filename().string(), entry.path().generic_string());
      CAPTURE(first->second);
      CAPTURE(entry.path().generic_string());
      CHECK(is_new);
    }
  }
}

/// Returns the types that a header defines outside functions and classes, as NAMESPACE::NAME.
std::vector<std::string> types_of(const fs::path& header) {
  static const std::regex kType(R"(^(?:enum class|struct|class) (\w+)(?: final)?(?: : .*)? \{.*)");
  std::vector<std::string> types, namespaces;
  std::ifstream source(header);
  for (std::string line; std::getline(source, line);) {
    std::smatch match;
    if (line.starts_with("namespace ") && line.ends_with("{")) {
      namespaces.push_back(line.substr(10, line.find(' ', 10) - 10));
    } else if (line.starts_with("}  // namespace") && !namespaces.empty()) {
      namespaces.pop_back();
    } else if (std::regex_match(line, match, kType)) {
      std::string name;
      for (const std::string& one : namespaces) name += one + "::";
      types.push_back(name + match[1].str());
    }
  }
  return types;
}

// Two types of one name make a program ill-formed, even if no file includes both headers: the
// linker then keeps a single copy of functions such as a destructor, for both types.
TEST_CASE("no two headers define a type of the same name in the same namespace") {
  std::map<std::string, std::string> headers;
  for (std::string_view folder : kTopFolders) {
    for (const auto& entry :
         fs::recursive_directory_iterator(fs::path(DLRUN_SOURCE_DIR) / folder)) {
      if (entry.path().extension() != ".h") continue;
      const std::string path = entry.path().generic_string();
      for (const std::string& type : types_of(entry.path())) {
        CAPTURE(type);
        CHECK(headers.emplace(type, path).first->second == path);
      }
    }
  }
  CHECK(headers.count("dlrun::RemoteFrame") == 1);
}

TEST_CASE("SVG elements are written only in launcher/drawing/svg.cc") {
  bool is_found = false;
  for (std::string_view folder : kTopFolders) {
    for (const auto& entry :
         fs::recursive_directory_iterator(fs::path(DLRUN_SOURCE_DIR) / folder)) {
      if (!entry.is_regular_file() || !is_source(entry.path())) continue;
      const std::string file = fs::relative(entry.path(), DLRUN_SOURCE_DIR).generic_string();
      std::ifstream source(entry.path());
      for (std::string line; std::getline(source, line);) {
        const bool has_svg_element = line.find("<svg") != std::string::npos ||
                                     line.find("<polyline") != std::string::npos ||
                                     line.find("<line ") != std::string::npos;
        if (!has_svg_element) continue;
        is_found = true;
        CAPTURE(file);
        CAPTURE(line);
        CHECK(file == "launcher/drawing/svg.cc");
      }
    }
  }
  CHECK(is_found);  // a rule without any use checks nothing
}

TEST_CASE(
    "only comm and bootstrap of runtime include MPI or Gloo, and only comm and CUDA code include "
    "NCCL or CUDA") {
  check_users_of_headers({"mpi.h", "gloo/"}, {"runtime/comm/", "runtime/bootstrap/"});
  check_users_of_headers({"nccl.h", "cuda", "cublas"},
                         {"runtime/comm/", "runtime/trainer/cuda", "runtime/cuda"});
}

TEST_CASE("only main.cc files end the process") {
  for (std::string_view folder : kTopFolders) {
    for (const auto& entry :
         fs::recursive_directory_iterator(fs::path(DLRUN_SOURCE_DIR) / folder)) {
      if (!entry.is_regular_file() || !is_source(entry.path()) ||
          entry.path().filename() == "main.cc")
        continue;
      std::ifstream source(entry.path());
      for (std::string line; std::getline(source, line);) {
        CAPTURE(entry.path().string());
        CAPTURE(line);
        for (std::string_view call :
             {" exit(", "std::exit(", " abort(", "std::abort(", "quick_exit("}) {
          CHECK(line.find(call) == std::string::npos);
        }
      }
    }
  }
}

TEST_CASE("only cli/terminal and the listed files print") {
  const std::vector<std::string_view> printers{
      "cli/terminal/",
      "common/log.cc",                // the log, which is off by default
      "launcher/spec/embed_yaml.cc",  // a program that only the build calls
      "runtime/agent/main.cc",
      "runtime/agent/agent_log.cc",  // prints if the log cannot be opened
      "runtime/agent/autopsy.cc",    // prints a line of JSON for the rank's agent
      "runtime/agent/lead.cc",
      "runtime/agent/rank.cc",
      "runtime/agent/program_output.cc",
      "runtime/trainer/main.cc",
      "runtime/trainer/loop/training_reporter.cc",
      "runtime/trainer/measure/collectives_program.cc"};
  const std::regex printing_code(
      R"(fmt::print\(|std::(cout|cerr|clog)\b|)"
      R"(\b(std::)?(v?f?printf|f?puts|f?putc|putchar|fwrite|fflush|perror)\(|)"
      R"(\bwrite(_all)?\((1|2|STD(OUT|ERR)_FILENO),|(OUT|ERR)_FILENO\) == 1|\\x1b\[|\\033\[)");
  int match_count = 0;
  for (std::string_view folder : kTopFolders) {
    for (const auto& entry :
         fs::recursive_directory_iterator(fs::path(DLRUN_SOURCE_DIR) / folder)) {
      if (!entry.is_regular_file() || !is_source(entry.path())) continue;
      const std::string file = fs::relative(entry.path(), DLRUN_SOURCE_DIR).generic_string();
      const bool may_print =
          std::any_of(printers.begin(), printers.end(),
                      [&](std::string_view printer) { return file.starts_with(printer); });
      std::ifstream source(entry.path());
      for (std::string line; std::getline(source, line);) {
        if (!std::regex_search(line.substr(0, line.find("//")), printing_code)) continue;
        ++match_count;
        CAPTURE(file);
        CAPTURE(line);
        CHECK(may_print);
      }
    }
  }
  CHECK(match_count > 10);  // a rule without any use checks nothing
}

namespace {

/// A line of a source file, without its comment.
struct SourceLine {
  std::string file, text;
};

std::vector<SourceLine> lines_of(std::string_view folder) {
  std::vector<SourceLine> lines;
  const fs::path top(DLRUN_SOURCE_DIR);
  for (const auto& entry : fs::recursive_directory_iterator(top / folder)) {
    if (!entry.is_regular_file() || !is_source(entry.path())) continue;
    std::ifstream source(entry.path());
    for (std::string line; std::getline(source, line);)
      lines.push_back(
          {fs::relative(entry.path(), top).generic_string(), line.substr(0, line.find("//"))});
  }
  return lines;
}

}  // namespace

TEST_CASE(
    "only launcher/submit and launcher/runs write the files of runs on the submitter's side") {
  // The functions of launcher/runs that write into a run.
  const std::regex writing_code(
      R"(\b(create_run_directory|write_submission|write_secrets|remove_secrets|write_successor|)"
      R"(mark_cancelled|unmark_cancelled|write_lost_end|take_snapshot|copy_missing_tools)\(|)"
      R"(\bSubmissionLock\b|\bprovenance\.write\()");
  bool is_used = false;
  for (const std::string_view folder : {"cli", "launcher", "container"}) {
    for (const SourceLine& line : lines_of(folder)) {
      if (!std::regex_search(line.text, writing_code)) continue;
      is_used = is_used || line.file.starts_with("launcher/submit/");
      CAPTURE(line.file);
      CAPTURE(line.text);
      CHECK((line.file.starts_with("launcher/submit/") || line.file.starts_with("launcher/runs/")));
    }
  }
  CHECK(is_used);
  // These sources of cli may write the charts and pages that the user asks for. One of these files,
  // report.html, is in a run's directory.
  struct AllowedSource {
    std::string_view file, what_it_writes;
  };
  const std::vector<AllowedSource> allowed_sources{
      {"cli/commands/bench_scaling.cc", "a chart that the user asks for"},
      {"cli/commands/bench.cc", "a chart that the user asks for"},
      {"cli/commands/report.cc", "a page that the user asks for"},
  };
  for (const SourceLine& line : lines_of("cli")) {
    if (line.text.find("write_file") == std::string::npos &&
        line.text.find("create_director") == std::string::npos)
      continue;
    CAPTURE(line.file);
    CAPTURE(line.text);
    CHECK(std::any_of(allowed_sources.begin(), allowed_sources.end(),
                      [&](const AllowedSource& one) { return one.file == line.file; }));
  }
}

TEST_CASE("only launcher/cleanup deletes runs") {
  const std::regex deleting_code(
      R"(\b(delete_run|remove_run_without_directory|finish_deletions)\()");
  bool is_used = false;
  for (const std::string_view folder : {"cli", "launcher", "container", "runtime"}) {
    for (const SourceLine& line : lines_of(folder)) {
      if (!std::regex_search(line.text, deleting_code)) continue;
      is_used = is_used || line.file.starts_with("launcher/cleanup/");
      CAPTURE(line.file);
      CAPTURE(line.text);
      CHECK((line.file.starts_with("launcher/cleanup/") ||
             line.file.starts_with("launcher/runs/deletion_mark.") ||
             line.file.starts_with("launcher/runs/run_deletion.")));
    }
  }
  CHECK(is_used);
}

TEST_CASE(
    "launcher/submit includes no headers for printing, and only launcher/submit includes the "
    "headers of its steps") {
  for (const Include& include : includes_of("launcher/submit")) {
    CAPTURE(include.file);
    CAPTURE(include.target);
    CHECK_FALSE(include.target.starts_with("cli/"));
    for (const std::string_view printer : {"cstdio", "iostream", "fmt/color.h", "fmt/ostream.h"})
      CHECK(include.target != printer);
  }
  // The headers of functions that each do one step of a submission. The command line calls only the
  // functions that make a whole submission.
  const std::vector<std::string_view> step_headers{
      "launcher/submit/dependencies.h",       "launcher/submit/downloads.h",
      "launcher/submit/built_environments.h", "launcher/submit/environments.h",
      "launcher/submit/job_secrets.h",        "launcher/submit/known_bad_exclusion.h",
      "launcher/submit/log_folders.h",        "launcher/submit/recording.h",
      "launcher/submit/slurm_options.h",      "launcher/submit/submit_once.h",
      "launcher/submit/sbatch_settings.h"};
  std::size_t use_count = 0;
  for (const std::string_view folder : {"cli", "launcher"}) {
    for (const Include& include : includes_of(folder)) {
      if (std::find(step_headers.begin(), step_headers.end(), include.target) == step_headers.end())
        continue;
      use_count += include.file.starts_with("launcher/submit/") ? 1 : 0;
      CAPTURE(include.file);
      CAPTURE(include.target);
      CHECK(include.file.starts_with("launcher/submit/"));
    }
  }
  CHECK(use_count >= step_headers.size());
}

TEST_CASE(
    "files and JSON that other users may have written are read only by the safe reader and "
    "parser") {
  struct AllowedSource {
    std::string_view file, why;
  };
  const std::vector<AllowedSource> allowed_sources{
      {"common/untrusted_file.cc", "the reader itself"},
      {"common/bounded_json.h", "the parser itself"},
      {"launcher/executors/rest_token.cc", "checks owner and mode before it reads"},
      {"launcher/download/downloader.cc", "opens a file only to lock it"},
      {"launcher/runs/deletable_run.cc",
       "reads the user's own files, in a directory that it holds open"},
      {"container/image_file.cc",
       "reads the first bytes of a regular file, and has its own errors"},
      {"launcher/executors/local.cc",
       "reads a file of the kernel, in a folder of /proc that it holds open"},
      {"runtime/agent/descendants.cc", "reads hundreds of the kernel's files per second"},
      {"runtime/agent/secrets.cc", "checks owner and mode before it reads"},
  };
  // A line with one of these words reads no file that other users may have written: a folder is
  // opened only to sync it, and other users do not write /dev/null and the files below /proc.
  const std::vector<std::string_view> harmless{"O_DIRECTORY", "\"/dev/null\"", "\"/proc/"};
  // "son::" finds the calls of both Json and nlohmann::json.
  const std::vector<std::string_view> calls{"O_RDONLY",     "ifstream",     "std::fstream",
                                            "fopen(",       "gzopen(",      "son::parse(",
                                            "son::accept(", "Json::parse(", "son::sax_parse("};
  std::vector<std::string> used;
  for (std::string_view folder : kTopFolders) {
    for (const auto& entry :
         fs::recursive_directory_iterator(fs::path(DLRUN_SOURCE_DIR) / folder)) {
      if (!entry.is_regular_file() || !is_source(entry.path())) continue;
      const std::string file = fs::relative(entry.path(), DLRUN_SOURCE_DIR).generic_string();
      const auto is_this = [&](const AllowedSource& one) { return one.file == file; };
      std::ifstream source(entry.path());
      for (std::string line; std::getline(source, line);) {
        const auto holds = [&](std::string_view word) {
          return line.find(word) != std::string::npos;
        };
        if (std::none_of(calls.begin(), calls.end(), holds) ||
            std::any_of(harmless.begin(), harmless.end(), holds))
          continue;
        used.push_back(file);
        CAPTURE(file);
        CAPTURE(line);
        CHECK(std::any_of(allowed_sources.begin(), allowed_sources.end(), is_this));
      }
    }
  }
  for (const AllowedSource& one : allowed_sources) {
    CAPTURE(one.file);
    // A source without such a call needs no permission.
    CHECK(std::find(used.begin(), used.end(), one.file) != used.end());
  }
}

TEST_CASE(
    "only launcher/remote starts ssh and rsync, and launcher/remote includes no headers for "
    "printing") {
  bool is_used = false;
  for (const std::string_view folder : {"cli", "launcher", "container"}) {
    for (const SourceLine& line : lines_of(folder)) {
      const bool starts = line.text.find("{\"ssh\"") != std::string::npos ||
                          line.text.find("{\"rsync\"") != std::string::npos;
      if (!starts) continue;
      is_used = true;
      CAPTURE(line.file);
      CHECK(line.file.starts_with("launcher/remote/"));
    }
  }
  CHECK(is_used);
  for (const Include& include : includes_of("launcher/remote")) {
    CAPTURE(include.file);
    CAPTURE(include.target);
    for (const std::string_view printer : {"cstdio", "iostream", "fmt/color.h", "fmt/ostream.h"})
      CHECK(include.target != printer);
  }
}

TEST_CASE(
    "no setup_file of an end-to-end test skips, because bats would run the file's tests all the "
    "same") {
  const fs::path folder = fs::path(DLRUN_SOURCE_DIR) / "tests/e2e";
  int setup_count = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".bats") continue;
    std::ifstream file(entry.path());
    bool is_inside = false;
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with("setup_file()")) {
        is_inside = !line.ends_with('}');
        ++setup_count;
      }
      if (line == "}") is_inside = false;
      CAPTURE(entry.path());
      CAPTURE(line);
      static const std::regex kSkip(R"((^|[^a-z_])skip($|[^a-z_]))");
      if (is_inside || line.starts_with("setup_file()")) CHECK(!std::regex_search(line, kSkip));
    }
  }
  CHECK(setup_count > 5);
}

TEST_CASE(
    "unit tests that limit time or memory are in the programs that scripts/test runs in the "
    "release build") {
  const fs::path folder = fs::path(DLRUN_SOURCE_DIR) / "tests" / "unit";
  const std::string list = text_of(folder / "CMakeLists.txt");
  const std::string tests_of_release = list.substr(0, list.find("\ndlrun_unit_test("));
  std::size_t file_count = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (!name.ends_with("_test.cc") || name == "architecture_test.cc") continue;
    const std::string text = text_of(entry.path());
    if (text.find("__SANITIZE_") == std::string::npos &&
        text.find("tests/time_bounds.h") == std::string::npos)
      continue;
    ++file_count;
    CHECK_MESSAGE(tests_of_release.find(name) != std::string::npos, name);
  }
  CHECK(file_count > 5);
}

namespace {

/// Returns the text of a test's source. A long name consists of several literals, which the
/// compiler joins; in the result they are one literal.
std::string text_with_joined_literals(const fs::path& path) {
  static const std::regex kSeam(R"("\s*\n\s*")");
  return std::regex_replace(text_of(path), kSeam, "");
}

/// Returns the path, below the repository, of a file that docs/security.md names with or without
/// its folder.
fs::path path_of_named_test(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  for (const char* folder : {"tests/unit", "tests/e2e", "tests/golden"}) {
    if (fs::exists(fs::path(DLRUN_SOURCE_DIR) / folder / name)) return fs::path(folder) / name;
  }
  return name;
}

}  // namespace

TEST_CASE("every test in the tables of PAINS.md exists") {
  const fs::path tests = fs::path(DLRUN_SOURCE_DIR) / "tests";
  std::ifstream page(tests / "PAINS.md");
  int named_count = 0;
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("| ")) continue;
    std::size_t at = line.rfind(" | ");
    while ((at = line.find('`', at)) != std::string::npos) {
      const std::size_t end = line.find('`', at + 1);
      const std::string test = line.substr(at + 1, end - at - 1);
      at = end + 1;
      const std::size_t colon = test.find(": ");
      CAPTURE(test);
      REQUIRE(colon != std::string::npos);
      const std::string text = text_with_joined_literals(tests / test.substr(0, colon));
      CHECK(text.find(test.substr(colon + 2)) != std::string::npos);
      ++named_count;
    }
  }
  CHECK(named_count > 20);
}

TEST_CASE("every test that docs/security.md names exists") {
  std::string page = text_of(fs::path(DLRUN_SOURCE_DIR) / "docs/security.md");
  std::replace(page.begin(), page.end(), '\n', ' ');
  // The name of a file with tests, or a quotation: the start of the name of a test in the file that
  // is named before it.
  static const std::regex kFileOrQuotation(
      R"re(`([\w./-]+(?:_test\.cc|\.bats|_test\.py))`|"([^"]+)")re");
  std::string file, text;
  int quotation_count = 0;
  for (std::sregex_iterator match(page.begin(), page.end(), kFileOrQuotation), end; match != end;
       ++match) {
    if ((*match)[1].matched) {
      file = (*match)[1].str();
      text = text_with_joined_literals(fs::path(DLRUN_SOURCE_DIR) / path_of_named_test(file));
      CHECK_MESSAGE(!text.empty(), file);
      continue;
    }
    ++quotation_count;
    const std::string start = (*match)[2].str();
    CAPTURE(file);
    CAPTURE(start);
    const std::string before_name = file.ends_with(".py") ? "def " : "\"";
    CHECK(text.find(before_name + start) != std::string::npos);
  }
  CHECK(quotation_count > 20);
}
