#include "runtime/agent/copy_report.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "common/json_read.h"

namespace dlrun::agent {
namespace {

constexpr std::size_t kProblemsLimit = 8;
constexpr std::size_t kProblemLimitBytes = 1024;

std::int64_t amount_of(const nlohmann::ordered_json& object, const char* key) {
  return std::max<std::int64_t>(json_read::integer(object, key).value_or(0), 0);
}

}  // namespace

std::string CopyReport::line() const {
  nlohmann::ordered_json object{{"files", file_count}, {"bytes", bytes}};
  auto& all_held = object["held"] = nlohmann::ordered_json::array();
  for (const auto& one : held)
    all_held.push_back({{"lock", one.lock}, {"note", one.note}, {"hash", one.hash}});
  auto& all_problems = object["problems"] = nlohmann::ordered_json::array();
  for (const auto& problem : problems) {
    if (all_problems.size() == kProblemsLimit) {
      all_problems.push_back("and " + std::to_string(problems.size() - kProblemsLimit) + " more");
      break;
    }
    all_problems.push_back(problem.substr(0, kProblemLimitBytes));
  }
  object["error"] = error.substr(0, 4 * kProblemLimitBytes);
  return json_read::dump(object);
}

CopyReport CopyReport::of_line(std::string_view line) {
  CopyReport report;
  const auto object = json_read::object_of(line.substr(0, line.find('\n')));
  if (!object) {
    report.error = "the copying ended without a report";
    return report;
  }
  report.file_count = amount_of(*object, "files");
  report.bytes = amount_of(*object, "bytes");
  report.error = json_read::text(*object, "error");
  if (const auto found = object->find("held"); found != object->end() && found->is_array()) {
    for (const auto& one : *found)
      report.held.push_back({json_read::text(one, "lock"), json_read::text(one, "note"),
                             json_read::text(one, "hash")});
  }
  if (const auto found = object->find("problems"); found != object->end() && found->is_array()) {
    for (const auto& one : *found) {
      if (one.is_string()) report.problems.push_back(one.get<std::string>());
    }
  }
  return report;
}

}  // namespace dlrun::agent
