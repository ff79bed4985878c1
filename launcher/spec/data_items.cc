// Reads the items of stage and outputs.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "common/text.h"
#include "launcher/spec/item_reader.h"
#include "launcher/spec/value_setter.h"
#include "launcher/spec/value_syntax.h"

namespace dlrun {
namespace {

/// The shortest value of `every` and `limit`, in seconds.
constexpr std::int64_t kShortestSeconds = 10;

/// Returns true if every part of the relative path is a name: neither empty, nor "." or "..".
[[nodiscard]] bool has_plain_parts(std::string_view path) {
  const auto parts = split(path, '/');
  return std::all_of(parts.begin(), parts.end(), [](std::string_view part) {
    return !part.empty() && part != "." && part != "..";
  });
}

[[nodiscard]] std::string without_last_slashes(std::string text) {
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

/// Returns a path on the compute node without slashes at its end. Fails with kInvalid unless the
/// path is $VARIABLE/PATH.
[[nodiscard]] Result<std::string> path_on_node(std::string_view name, std::string text) {
  text = without_last_slashes(std::move(text));
  const auto slash = std::min(text.find('/'), text.size());
  const bool has_variable =
      text.starts_with('$') && is_variable_name(std::string_view(text).substr(1, slash - 1));
  if (!has_variable) {
    return fail(Errc::kInvalid,
                "{} is '{}', but it must be on the node's own disk: begin it with a variable of "
                "the node, without braces, such as $TMPDIR/data (dlrun replaces ${{NAME}} at "
                "submission)",
                name, printable(text));
  }
  if (text.find('$', 1) != std::string::npos) {
    return fail(
        Errc::kInvalid,
        "{} is '{}', but only one variable, at the start, is replaced. To have a folder of "
        "its own for each job, export a variable in environment.setup, such as `export "
        "SCRATCH_OF_JOB=/tmp/job-$SLURM_JOB_ID`, make the folder in environment.setup_node, "
        "and begin the path with the variable",
        name, printable(text));
  }
  if (slash == text.size() || !has_plain_parts(std::string_view(text).substr(slash + 1))) {
    return fail(Errc::kInvalid,
                "{} is '{}', but it must be a path below the variable's folder, such as "
                "$TMPDIR/data, without '.', '..' and empty parts",
                name, printable(text));
  }
  return text;
}

[[nodiscard]] bool is_same_or_inside(std::string_view path, std::string_view folder) {
  return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}

[[nodiscard]] bool overlap(std::string_view one, std::string_view other) {
  return is_same_or_inside(one, other) || is_same_or_inside(other, one);
}

/// The endings of the archives that GNU tar unpacks without further options; .tar.lz4 is not among
/// them.
constexpr std::array<std::string_view, 9> kTarEndings{
    ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.zst", ".tzst"};

[[nodiscard]] bool is_tar(std::string_view path) {
  return std::any_of(kTarEndings.begin(), kTarEndings.end(),
                     [&](std::string_view ending) { return path.ends_with(ending); });
}

[[nodiscard]] Result<bool> bool_of_item(std::string_view name, std::string_view text) {
  if (text == "true") return true;
  if (text == "false") return false;
  return fail(Errc::kInvalid, "{}: expected true or false, not '{}'", name, printable(text));
}

[[nodiscard]] Result<std::int64_t> seconds_of_item(std::string_view name, std::string_view text) {
  const auto seconds = parse_duration(text);
  if (!seconds) return within(name, seconds.error());
  if (*seconds < kShortestSeconds)
    return fail(Errc::kInvalid, "{} is {} s; the shortest time is {} s", name, *seconds,
                kShortestSeconds);
  return *seconds;
}

}  // namespace

Result<StagedData> ItemReader::read_staged_data(const YamlNode& item,
                                                const std::vector<StagedData>& before) const {
  if (item.kind != YamlNode::Kind::kMap)
    return fail(Errc::kInvalid, "expected {{from: ./data, to: $TMPDIR/data}}, not {}",
                kind_name(item));
  StagedData staged;
  for (const auto& [name, value] : builder.entries(layer, item, std::string(row.path))) {
    DLRUN_TRY_ASSIGN(auto text, builder.text(layer, row, *value, "text"));
    if (name->text == "from") {
      DLRUN_TRY_ASSIGN(staged.from, absolute_path(text, layer.source.base_dir, builder.env_));
    } else if (name->text == "to") {
      DLRUN_TRY_ASSIGN(staged.to, path_on_node("to", std::move(text)));
    } else if (name->text == "unpack") {
      DLRUN_TRY_ASSIGN(staged.unpack, bool_of_item("unpack", text));
    } else {
      return fail(Errc::kInvalid,
                  "unknown key '{}'; data to stage has the keys from, to and unpack",
                  printable(name->text));
    }
  }
  if (staged.from.empty() || staged.to.empty())
    return fail(Errc::kInvalid, "{} is missing; an item is {{from: ./data, to: $TMPDIR/data}}",
                staged.from.empty() ? "from" : "to");
  if (staged.unpack && !is_tar(staged.from))
    return fail(Errc::kInvalid,
                "unpack: tar cannot unpack '{}'; expected a name that ends with one of: {}",
                printable(staged.from), fmt::join(kTarEndings, " "));
  for (const StagedData& other : before) {
    if (overlap(other.to, staged.to))
      return fail(Errc::kInvalid, "'{}' and '{}' overlap; each item needs a path of its own",
                  printable(staged.to), printable(other.to));
  }
  return staged;
}

Result<OutputCopy> ItemReader::read_output_copy(const YamlNode& item,
                                                const std::vector<OutputCopy>& before) const {
  if (item.kind != YamlNode::Kind::kMap)
    return fail(Errc::kInvalid, "expected {{from: $TMPDIR/ckpt, to: out}}, not {}",
                kind_name(item));
  OutputCopy output;
  for (const auto& [name, value] : builder.entries(layer, item, std::string(row.path))) {
    DLRUN_TRY_ASSIGN(auto text, builder.text(layer, row, *value, "text"));
    if (name->text == "from") {
      DLRUN_TRY_ASSIGN(output.from, path_on_node("from", std::move(text)));
    } else if (name->text == "to") {
      output.to = without_last_slashes(std::move(text));
    } else if (name->text == "every") {
      DLRUN_TRY_ASSIGN(output.every_s, seconds_of_item("every", text));
    } else if (name->text == "limit") {
      DLRUN_TRY_ASSIGN(output.limit_s, seconds_of_item("limit", text));
    } else {
      return fail(Errc::kInvalid,
                  "unknown key '{}'; an output has the keys from, to, every and limit",
                  printable(name->text));
    }
  }
  if (output.from.empty() || output.to.empty())
    return fail(Errc::kInvalid, "{} is missing; an item is {{from: $TMPDIR/ckpt, to: out}}",
                output.from.empty() ? "from" : "to");
  if (output.to.find('$') != std::string::npos)
    return fail(
        Errc::kInvalid,
        "to is '{}', but no variable is replaced there when the job runs. A path without '/' at "
        "its start is below the run's directory, which each run has for itself; dlrun replaces "
        "${{NAME}} at submission",
        printable(output.to));
  const bool is_absolute = output.to.starts_with('/');
  if (!has_plain_parts(std::string_view(output.to).substr(is_absolute ? 1 : 0)))
    return fail(Errc::kInvalid,
                "to is '{}'; expected an absolute path, or one below the run's directory, without "
                "'.', '..' and empty parts",
                printable(output.to));
  for (const OutputCopy& other : before) {
    if (overlap(other.to, output.to))
      return fail(Errc::kInvalid, "'{}' and '{}' overlap; each item needs a path of its own",
                  printable(output.to), printable(other.to));
  }
  return output;
}

}  // namespace dlrun
