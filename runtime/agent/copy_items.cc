#include "runtime/agent/copy_items.h"

#include <algorithm>
#include <system_error>

#include <nlohmann/json.hpp>

#include "common/json_read.h"
#include "common/text.h"

namespace dlrun::agent {
namespace {

using ItemJson = nlohmann::ordered_json;

constexpr std::string_view kTmpdir = "TMPDIR";
constexpr const char* kUsualTmpdir = "/tmp";
constexpr std::int64_t kLongestSeconds = 1 << 30;

/// Returns the name of the variable in $NAME/PATH; empty for another text.
std::string_view variable_of(std::string_view text) {
  const auto slash = text.find('/');
  if (!text.starts_with('$') || slash == std::string_view::npos) return {};
  return text.substr(1, slash - 1);
}

Result<ItemJson> object_of_option(std::string_view option, std::string_view text) {
  auto object = json_read::object_of(text);
  if (!object) return fail(Errc::kUsage, "{} '{}' is not a JSON object", option, printable(text));
  if (json_read::text(*object, "from").empty() || json_read::text(*object, "to").empty())
    return fail(Errc::kUsage, "{} '{}': `from` and `to` must be texts that are not empty", option,
                printable(text));
  return std::move(*object);
}

}  // namespace

Result<StageItem> StageItem::parse(std::string_view text) {
  DLRUN_TRY_ASSIGN(const auto object, object_of_option("--stage", text));
  StageItem item{json_read::text(object, "from"), json_read::text(object, "to"),
                 json_read::boolean(object, "unpack"), json_read::boolean(object, "in_container"),
                 json_read::text(object, "broadcast")};
  if (!item.from.starts_with('/'))
    return fail(Errc::kUsage, "--stage: `from` is '{}', which is not an absolute path",
                printable(item.from));
  return item;
}

std::string StageItem::json() const {
  ItemJson object{{"from", from}, {"to", to}};
  if (unpack) object["unpack"] = true;
  if (in_container) object["in_container"] = true;
  if (!broadcast_copy.empty()) object["broadcast"] = broadcast_copy;
  return json_read::dump(object);
}

Result<OutputItem> OutputItem::parse(std::string_view text) {
  DLRUN_TRY_ASSIGN(const auto object, object_of_option("--output", text));
  OutputItem item{json_read::text(object, "from"), json_read::text(object, "to"), {}};
  const auto seconds = [&](const char* key) {
    const auto value = json_read::integer(object, key);
    return value ? std::optional(
                       std::chrono::seconds(std::clamp<std::int64_t>(*value, 1, kLongestSeconds)))
                 : std::nullopt;
  };
  item.every = seconds("every_s");
  item.limit = seconds("limit_s").value_or(item.limit);
  return item;
}

std::string OutputItem::json() const {
  ItemJson object{{"from", from}, {"to", to}};
  if (every) object["every_s"] = every->count();
  object["limit_s"] = limit.count();
  return json_read::dump(object);
}

Result<NodePath> node_path(std::string_view text, const Env& env) {
  const auto name = variable_of(text);
  if (name.empty())
    return fail(Errc::kInvalid, "'{}' does not begin with a variable of the node, such as $TMPDIR/",
                printable(text));
  const auto rest = std::filesystem::path(text.substr(name.size() + 2));
  const bool is_not_below =
      rest.is_absolute() || rest.empty() ||
      std::any_of(rest.begin(), rest.end(), [](const std::filesystem::path& part) {
        return part == ".." || part == "." || part.empty();
      });
  if (is_not_below)
    return fail(
        Errc::kInvalid,
        "'{}' is not a path below ${}: write ${}/PATH, where no part of PATH is empty, `.` or "
        "`..`",
        printable(text), printable(name), printable(name));
  const auto value = env.get_or(name, name == kTmpdir ? kUsualTmpdir : "");
  if (value.empty() || value.front() != '/')
    return fail(Errc::kInvalid,
                "'{}': ${} is {} on this node; set it in environment.vars to a folder of the node",
                printable(text), printable(name),
                value.empty() ? "not set" : "'" + printable(value) + "', not an absolute path");
  std::error_code error;
  auto base = std::filesystem::canonical(value, error);
  if (error || !std::filesystem::is_directory(base, error)) {
    const bool is_missing = error == std::errc::no_such_file_or_directory;
    return fail(Errc::kInvalid, "'{}': '{}' (${}) {} on this node", printable(text),
                printable(value), printable(name),
                is_missing ? "does not exist"
                : error    ? "cannot be examined (" + error.message() + ")"
                           : "is not a folder");
  }
  return NodePath{base, base / rest};
}

void set_missing_tmpdir(const std::vector<StageItem>& stage, const std::vector<OutputItem>& outputs,
                        Env& env) {
  const bool is_used =
      std::any_of(stage.begin(), stage.end(),
                  [](const StageItem& item) { return variable_of(item.to) == kTmpdir; }) ||
      std::any_of(outputs.begin(), outputs.end(),
                  [](const OutputItem& item) { return variable_of(item.from) == kTmpdir; });
  if (is_used && env.get_or(kTmpdir, "").empty()) env.set(kTmpdir, kUsualTmpdir);
}

}  // namespace dlrun::agent
