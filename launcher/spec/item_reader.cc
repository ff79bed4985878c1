#include "launcher/spec/item_reader.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "common/text.h"
#include "container/mounts.h"
#include "launcher/spec/download_item.h"
#include "launcher/spec/secret_lines.h"
#include "launcher/spec/value_setter.h"

namespace dlrun {

std::string_view why_not_settable(std::string_view name) {
  if (!is_variable_name(name))
    return "is not a variable's name: letters, digits and '_', not starting with a digit";
  if (std::find(kVariablesOfBash.begin(), kVariablesOfBash.end(), name) != kVariablesOfBash.end())
    return "cannot be set: bash sets it itself";
  if (name.substr(0, 6) == "DLRUN_" || name.substr(0, 6) == "dlrun_")
    return "cannot be set: dlrun's own variables, and those of its scripts, start with DLRUN_ and "
           "dlrun_";
  constexpr std::string_view kSlurmPrefix = "SLURM_";
  const bool describes_job = std::any_of(
      kPrefixesOfJobVariables.begin(), kPrefixesOfJobVariables.end(), [&](std::string_view prefix) {
        return name.starts_with(kSlurmPrefix) &&
               name.substr(kSlurmPrefix.size()).starts_with(prefix);
      });
  if (describes_job)
    return "cannot be set: Slurm sets it to describe the job; use resources, launch or slurm";
  return {};
}

Result<Mount> ItemReader::read_mount(const YamlNode& item) const {
  return item.kind == YamlNode::Kind::kMap ? mount_of_map(item) : mount_of_text(item);
}

Result<SecretSource> ItemReader::read_secret_source(const YamlNode& item,
                                                    const std::vector<SecretSource>& before) const {
  SecretSource secret;
  if (item.kind == YamlNode::Kind::kMap) {
    for (const auto& [name, value] : builder.entries(layer, item, std::string(row.path))) {
      DLRUN_TRY_ASSIGN(auto text, builder.text(layer, row, *value, "text"));
      if (name->text == "name") {
        secret.name = text;
      } else if (name->text == "file") {
        DLRUN_TRY_ASSIGN(secret.file, absolute_path(text, layer.source.base_dir, builder.env_));
      } else {
        return fail(Errc::kInvalid, "unknown key '{}'; a secret has the keys name and file",
                    printable(name->text));
      }
    }
    if (secret.name.empty() || secret.file.empty())
      return fail(Errc::kInvalid,
                  "{} is missing; a secret from a file is {{name: NAME, file: PATH}}",
                  secret.name.empty() ? "name" : "file");
  } else {
    DLRUN_TRY_ASSIGN(secret.name,
                     builder.text(layer, row, item, "a variable's name, or {name, file}"));
  }
  // The user may have written the value instead of the name. The message shows neither such a
  // text nor the value of a ${NAME}.
  const bool may_be_shown = item.text == secret.name && looks_like_names_only(secret.name);
  if (!is_variable_name(secret.name) && !may_be_shown)
    return fail(Errc::kInvalid, "this is not the name of a variable; write the name alone");
  if (const auto why = why_not_settable(secret.name); !why.empty())
    return fail(Errc::kInvalid, "'{}' {}", printable(secret.name), why);
  for (const SecretSource& other : before) {
    if (other.name == secret.name) return fail(Errc::kInvalid, "'{}' is given twice", secret.name);
  }
  return secret;
}

Result<Mount> ItemReader::completed(Mount mount) const {
  if (mount.source.empty()) return fail(Errc::kInvalid, "the source is empty");
  DLRUN_TRY_ASSIGN(auto source, absolute_path(mount.source, layer.source.base_dir, builder.env_));
  const bool is_relative = mount.source[0] != '/';
  if (mount.target.empty() && is_relative)
    return fail(Errc::kInvalid, "'{}' needs a target: SOURCE:TARGET", printable(mount.source));
  mount.source = source;
  if (mount.target.empty()) mount.target = mount.source;
  if (mount.target[0] != '/')
    return fail(Errc::kInvalid, "the target '{}' must start with '/'", printable(mount.target));
  for (const std::string& flag : mount.flags) {
    const auto known = allowed_mount_flags();
    if (std::find(known.begin(), known.end(), flag) == known.end()) {
      return fail(Errc::kInvalid, "'{}' is not a mount flag; expected one of {}", printable(flag),
                  fmt::join(known, " "));
    }
  }
  constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kExclusiveFlags{
      {{"ro", "rw"},
       {"exec", "noexec"},
       {"suid", "nosuid"},
       {"dev", "nodev"},
       {"private", "shared"},
       {"private", "slave"},
       {"rprivate", "rshared"},
       {"rprivate", "rslave"}}};
  for (const auto& [one, other] : kExclusiveFlags) {
    const auto has = [&mount](std::string_view flag) {
      return std::find(mount.flags.begin(), mount.flags.end(), flag) != mount.flags.end();
    };
    if (has(one) && has(other))
      return fail(Errc::kInvalid, "the mount flags '{}' and '{}' exclude each other", one, other);
  }
  return mount;
}

Result<Mount> ItemReader::mount_of_text(const YamlNode& item) const {
  DLRUN_TRY_ASSIGN(const auto text,
                   builder.text(layer, row, item, "SOURCE:TARGET, or a map of source and target"));
  const auto parts = split(text, ':');
  if (parts.size() > 3)
    return fail(Errc::kInvalid,
                "'{}' has more than SOURCE:TARGET:FLAGS; a ':' in a path cannot be expressed",
                printable(text));
  Mount mount{std::string(parts[0]), parts.size() > 1 ? std::string(parts[1]) : "", {}};
  if (parts.size() > 1 && parts[1].empty()) return fail(Errc::kInvalid, "the target is empty");
  if (parts.size() > 2) {
    std::string flags(parts[2]);
    std::replace(flags.begin(), flags.end(), ',', '+');
    for (std::string_view flag : split(flags, '+')) mount.flags.emplace_back(flag);
  }
  return completed(std::move(mount));
}

Result<Mount> ItemReader::mount_of_map(const YamlNode& item) const {
  Mount mount;
  for (const auto& [name, value] : builder.entries(layer, item, std::string(row.path))) {
    if (name->text == "flags" && value->kind == YamlNode::Kind::kSequence) {
      for (YamlId id : value->items) {
        DLRUN_TRY_ASSIGN(auto flag, builder.text(layer, row, layer.document.at(id), "a word"));
        mount.flags.push_back(std::move(flag));
      }
      continue;
    }
    DLRUN_TRY_ASSIGN(auto text, builder.text(layer, row, *value, "text"));
    if (name->text == "source") {
      mount.source = text;
    } else if (name->text == "target") {
      mount.target = text;
    } else if (name->text == "flags") {
      mount.flags.push_back(text);
    } else {
      return fail(Errc::kInvalid, "unknown key '{}'; a mount has the keys source, target and flags",
                  printable(name->text));
    }
  }
  return completed(std::move(mount));
}

Result<Download> ItemReader::read_download(const YamlNode& item,
                                           const std::vector<Download>& before) const {
  if (item.kind != YamlNode::Kind::kMap)
    return fail(Errc::kInvalid, "expected {{url: https://..., sha256: ...}}, not {}",
                kind_name(item));
  Download download;
  for (const auto& [name, value] : builder.entries(layer, item, std::string(row.path))) {
    DLRUN_TRY_ASSIGN(auto text, builder.text(layer, row, *value, "text"));
    if (name->text == "url") {
      download.url = std::move(text);
    } else if (name->text == "sha256") {
      download.sha256 = std::move(text);
    } else if (name->text == "file") {
      download.file = std::move(text);
    } else if (name->text == "bytes") {
      download.bytes = parse_int(text);
      if (!download.bytes || *download.bytes < 0)
        return fail(Errc::kInvalid, "bytes: expected a whole number, 0 or more, not '{}'",
                    printable(text));
    } else {
      return fail(Errc::kInvalid,
                  "unknown key '{}'; a download has the keys url, sha256, file and bytes",
                  printable(name->text));
    }
  }
  auto checked = complete_download_item(std::move(download));
  if (!checked) return checked;
  for (const Download& other : before) {
    if (other.file == checked->file)
      return fail(
          Errc::kInvalid,
          "two downloads have the file name '{}'; give one of them another name with `file`",
          printable(other.file));
  }
  return checked;
}

Result<PreflightCheck> ItemReader::read_preflight_check(const YamlNode& item) const {
  PreflightCheck check;
  if (item.kind != YamlNode::Kind::kMap) {
    DLRUN_TRY_ASSIGN(check.name, builder.text(layer, row, item, "a check, or {run: SHELL LINE}"));
    return check;
  }
  check.name = "run";
  for (const auto& [name, value] : builder.entries(layer, item, std::string(row.path))) {
    if (name->text != "run")
      return fail(Errc::kInvalid, "unknown key '{}'; a check of your own is {{run: SHELL LINE}}",
                  printable(name->text));
    DLRUN_TRY_ASSIGN(check.line, builder.scalar(*value, "a shell line"));
  }
  if (trim(check.line).empty())
    return fail(Errc::kInvalid, "run: the command is empty; write {{run: ./check.sh}}");
  if (!is_utf8(check.line) || std::any_of(check.line.begin(), check.line.end(), is_control))
    return fail(Errc::kInvalid, "run: expected one line of UTF-8 text without control characters");
  return check;
}

}  // namespace dlrun
