#include "launcher/spec/config_reader.h"

#include <algorithm>
#include <set>
#include <system_error>

#include <fmt/format.h>

#include "common/files.h"
#include "common/text.h"
#include "launcher/spec/embedded.h"
#include "launcher/spec/spec_builder.h"
#include "launcher/spec/value_setter.h"

namespace dlrun {
namespace {

/// Hands a map's values to the readers of its keys; everything else about the map is an error.
class MapReader {
 public:
  MapReader(const ConfigFile& file, std::vector<Diagnostic>& diagnostics) : file_(file), diagnostics_(diagnostics) {}

  using Reader = std::function<void(YamlId)>;
  using Readers = std::map<std::string_view, Reader>;

  void read(YamlId id, const Readers& readers) {
    each(id, [&](const YamlNode& key, YamlId value) {
      const auto found = readers.find(key.text);
      if (found != readers.end()) return found->second(value);
      std::vector<std::string_view> names;
      for (const auto& [name, reader] : readers) names.push_back(name);
      const auto similar = nearest(key.text, names);
      error(key,
            fmt::format("unknown key '{}'{}", key.text, similar ? fmt::format("; did you mean '{}'?", *similar) : ""));
    });
  }

  /// Every key and value of a map whose names are free.
  void each(YamlId id, const std::function<void(const YamlNode& key, YamlId value)>& reader) {
    const YamlNode& map = file_.document.at(id);
    if (map.kind == YamlNode::Kind::kNull) return;
    if (map.kind != YamlNode::Kind::kMap) return error(map, fmt::format("expected a map, not {}", kind_name(map)));
    std::set<std::string_view> seen;
    for (std::size_t i = 0; i + 1 < map.items.size(); i += 2) {
      const YamlNode& key = file_.document.at(map.items[i]);
      if (key.kind != YamlNode::Kind::kScalar) {
        error(key, fmt::format("a key is a word, not {}", kind_name(key)));
      } else if (!seen.insert(key.text).second) {
        error(key, fmt::format("'{}' is given twice", key.text));
      } else {
        reader(key, map.items[i + 1]);
      }
    }
  }

  [[nodiscard]] Reader text(std::string& into) {
    return [this, &into](YamlId id) {
      const YamlNode& node = file_.document.at(id);
      if (node.kind != YamlNode::Kind::kScalar)
        return error(node, fmt::format("expected text, not {}", kind_name(node)));
      if (std::any_of(node.text.begin(), node.text.end(), is_control))
        return error(node, "control characters cannot stand here");
      into = node.text;
    };
  }
  [[nodiscard]] Reader choice(std::string& into, std::vector<std::string_view> choices) {
    return [this, &into, choices = std::move(choices)](YamlId id) {
      const YamlNode& node = file_.document.at(id);
      if (std::find(choices.begin(), choices.end(), node.text) == choices.end()) {
        return error(node, fmt::format("'{}' is not one of: {}", printable(node.text), fmt::join(choices, " ")));
      }
      into = node.text;
    };
  }
  [[nodiscard]] Reader number(std::optional<std::int64_t>& into) {
    return [this, &into](YamlId id) {
      const YamlNode& node = file_.document.at(id);
      into = parse_int(node.text);
      if (!into || *into < 0) error(node, "expected a whole number, 0 or more");
    };
  }
  [[nodiscard]] Reader boolean(bool& into) {
    return [this, &into](YamlId id) {
      const YamlNode& node = file_.document.at(id);
      if (node.text != "true" && node.text != "false") return error(node, "expected true or false");
      into = node.text == "true";
    };
  }
  [[nodiscard]] Reader list(std::vector<std::string>& into) {
    return [this, &into](YamlId id) {
      const YamlNode& node = file_.document.at(id);
      if (node.kind != YamlNode::Kind::kSequence)
        return error(node, fmt::format("expected a list, not {}", kind_name(node)));
      for (YamlId item : node.items) {
        std::string word;
        text(word)(item);
        into.push_back(std::move(word));
      }
    };
  }
  /// Variables: names to values.
  [[nodiscard]] Reader variables(NamedValues& into) {
    return [this, &into](YamlId id) {
      each(id, [&](const YamlNode& key, YamlId value) {
        if (!is_variable_name(key.text))
          return error(key, fmt::format("'{}' is not a variable's name", printable(key.text)));
        std::string word;
        text(word)(value);
        into.emplace_back(key.text, std::move(word));
      });
    };
  }

  void error(const YamlNode& node, std::string message) {
    diagnostics_.push_back({Diagnostic::Severity::kError,
                            {file_.kind, file_.source, node.line, node.column},
                            std::move(message),
                            line_of(file_.text, node.line)});
  }

 private:
  const ConfigFile& file_;
  std::vector<Diagnostic>& diagnostics_;
};

constexpr std::size_t kLargestConfig = 1U << 20U;

}  // namespace

std::optional<ConfigFile> find_config(std::string_view folder, std::string_view name,
                                      const std::vector<std::filesystem::path>& dirs,
                                      std::vector<Diagnostic>& diagnostics) {
  ConfigFile file;
  file.kind = folder == "sites" ? Origin::Kind::kSite : Origin::Kind::kPreset;
  const auto fail_with = [&](int line, int column, std::string message) {
    diagnostics.push_back({Diagnostic::Severity::kError,
                           {file.kind, file.source, line, column},
                           std::move(message),
                           line_of(file.text, line)});
    return std::nullopt;
  };
  const std::string relative = fmt::format("{}/{}.yaml", folder, name);
  bool is_found = false;
  for (const auto& dir : dirs) {
    const auto path = dir / relative;
    auto text = read_file(path, kLargestConfig);
    if (!text && text.error().code == Errc::kNotFound) continue;
    file.source = path.string();
    if (!text) return fail_with(0, 0, text.error().message);
    file.text = std::move(*text);
    is_found = true;
    break;
  }
  if (!is_found) {
    for (const EmbeddedFile& embedded : embedded_files()) {
      if (embedded.name != relative) continue;
      file.source = "built-in " + relative;
      file.text = embedded.text;
      is_found = true;
    }
  }
  if (!is_found) return std::nullopt;
  auto document = parse_yaml(file.text);
  if (!document) return fail_with(document.error().line, document.error().column, document.error().message);
  file.document = std::move(*document);
  return file;
}

std::vector<std::string> config_names(std::string_view folder, const std::vector<std::filesystem::path>& dirs) {
  std::set<std::string> names;
  for (const EmbeddedFile& file : embedded_files()) {
    const std::filesystem::path path(file.name);
    if (path.parent_path() == folder) names.insert(path.stem().string());
  }
  for (const auto& dir : dirs) {
    std::error_code error;
    for (std::filesystem::directory_iterator at(dir / folder, error), end; !error && at != end; at.increment(error)) {
      if (at->path().extension() == ".yaml") names.insert(at->path().stem().string());
    }
  }
  return {names.begin(), names.end()};
}

SiteProfile read_site(const ConfigFile& file, std::string_view name, std::optional<YamlId>& defaults_id,
                      std::vector<Diagnostic>& diagnostics) {
  SiteProfile site;
  site.name = name;
  site.source = file.source;
  MapReader reader(file, diagnostics);
  std::string help;
  const auto read_partition = [&](const YamlNode& key, YamlId id) {
    PartitionProfile& partition = site.partitions[key.text];
    reader.read(id, {{"gpus_per_node", reader.number(partition.gpus_per_node)},
                     {"cpus_per_node", reader.number(partition.cpus_per_node)},
                     {"max_nodes", reader.number(partition.max_nodes)},
                     {"time", reader.text(partition.time)}});
  };
  NamedValues environment;
  reader.read(file.document.root, {{"help", reader.text(help)},
                                   {"clusters", reader.list(site.cluster_names)},
                                   {"gpu_style", reader.choice(site.gpu_style, {"gpus", "gres"})},
                                   {"container_runtime", reader.text(site.container_runtime)},
                                   {"mpi", reader.text(site.mpi)},
                                   {"runs_dir", reader.text(site.runs_dir)},
                                   {"module_init", reader.text(site.module_init)},
                                   {"interface", reader.text(site.interface)},
                                   {"default_partition", reader.text(site.default_partition)},
                                   {"max_gpus_per_node", reader.number(site.max_gpus_per_node)},
                                   {"partitions", [&](YamlId id) { reader.each(id, read_partition); }},
                                   {"environment", reader.variables(environment)},
                                   {"defaults", [&](YamlId id) { defaults_id = id; }}});
  site.environment.insert(environment.begin(), environment.end());
  return site;
}

Preset read_preset(const ConfigFile& file, std::string_view name, std::vector<Diagnostic>& diagnostics) {
  Preset preset;
  preset.name = name;
  preset.source = file.source;
  MapReader reader(file, diagnostics);
  std::string program = "command";
  reader.read(file.document.root, {{"help", reader.text(preset.help)},
                                   {"program", reader.choice(program, {"command", "trainer"})},
                                   {"mpi", reader.boolean(preset.wants_mpi)},
                                   {"env", reader.variables(preset.env)},
                                   {"vars", reader.variables(preset.vars)}});
  // Trust comes with dlrun's own program and cannot be claimed by a file.
  preset.is_trainer = preset.trusted = program == "trainer";
  return preset;
}

}  // namespace dlrun
