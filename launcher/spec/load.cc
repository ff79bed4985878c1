// Loading applies the layers to a SpecBuilder, strongest first: point, --set, file, bases,
// environment, site, preset. A later layer does not replace the values of an earlier one. The
// checks of validate.cc come last. All diagnostics are collected and sorted. If the file or a base
// cannot be used, everything after it is skipped.
#include "launcher/spec/load.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "common/files.h"
#include "common/log.h"
#include "common/text.h"
#include "launcher/spec/config_reader.h"
#include "launcher/spec/key_name.h"
#include "launcher/spec/load_diagnostics.h"
#include "launcher/spec/preset_choice.h"
#include "launcher/spec/secret_lines.h"
#include "launcher/spec/sites.h"
#include "launcher/spec/spec_builder.h"
#include "launcher/spec/spec_keys.h"
#include "launcher/spec/sweep_points.h"
#include "launcher/spec/validate.h"

namespace dlrun {
namespace {

using Diagnostics = std::vector<Diagnostic>;

/// Replaces the message of a YAML problem if that message would quote a secret.
constexpr std::string_view kHiddenYamlProblem =
    "this is not YAML that dlrun can read; put the value in quotes (its text is not shown)";

[[nodiscard]] Diagnostic error_about(const Origin& where, std::string message) {
  return {Diagnostic::Severity::kError, where, std::move(message), {}};
}

/// Sets a point's values. Their origins are the lines of the sweep that list them.
void apply_point(SpecBuilder& builder, const SweepPoint& point) {
  for (const SweptValue& value : point) {
    if (is_program_parameter(value.key)) continue;  // fill_templates() uses it
    auto document = parse_yaml(value.text);
    if (!document) {
      builder.report(
          error_about(value.where, fmt::format("{}: {}", value.key, document.error().message)));
      continue;
    }
    for (YamlNode& node : document->nodes) {
      node.line = value.where.line;
      node.column = value.where.column;
    }
    builder.apply_at(*document, document->root, value.key,
                     {value.where.kind, value.where.source, "", "/", 0});
  }
}

/// Returns the first point of a sweep. For an invalid sweep, returns the first value of each list.
[[nodiscard]] SweepPoint first_point(const SweepSpec& sweep) {
  const bool is_size_allowed = count_points(sweep) <= kMostSweepPoints &&
                               count_points(sweep) <= count_possible_points(sweep);
  const bool is_random = sweep.random && sweep.points.empty();
  const bool has_range = std::any_of(sweep.parameters.begin(), sweep.parameters.end(),
                                     [](const SweptKey& key) { return key.range.has_value(); });
  if (is_size_allowed && (is_random || sweep.is_search() || !has_range)) {
    auto points = sweep_points(sweep);
    if (!points.empty()) return std::move(points.front());
  }
  SweepPoint point;
  for (const SweptKey& key : sweep.parameters) {
    if (!key.values.empty()) point.push_back(key.values.front());
  }
  return point;
}

/// Applies one --set argument. A value that starts with a quote, brace or bracket is YAML. An empty
/// value, `null` and `~` remove the key's value. Any other value is text without YAML syntax;
/// ${NAME} is replaced as in a file.
void apply_set(SpecBuilder& builder, const std::string& argument, const std::string& current_dir) {
  SpecSource source{Origin::Kind::kSetOption, argument, argument, current_dir, 0};
  const auto equals = argument.find('=');
  if (equals == std::string::npos || equals == 0) {
    return builder.report(error_about({Origin::Kind::kSetOption, argument, 0, 0},
                                      "expected KEY=VALUE, such as resources.nodes=4"));
  }
  const std::string path = argument.substr(0, equals), value = argument.substr(equals + 1);
  source.column_shift = static_cast<int>(equals) + 1;
  YamlDocument document;
  if (!value.empty() && std::string_view("[{\"'").find(value[0]) != std::string_view::npos) {
    auto parsed = parse_yaml(value);
    if (!parsed) {
      const auto& problem = parsed.error();
      const SourceLine line = line_for_message(argument, problem.line);
      return builder.report(
          {Diagnostic::Severity::kError,
           {Origin::Kind::kSetOption, argument, problem.line,
            problem.column + (problem.line == 1 ? source.column_shift : 0)},
           problem.shows_text && line.is_hidden ? std::string(kHiddenYamlProblem) : problem.message,
           line});
    }
    document = std::move(*parsed);
  } else {
    YamlNode node;
    node.kind = value.empty() || value == "null" || value == "~" ? YamlNode::Kind::kNull
                                                                 : YamlNode::Kind::kScalar;
    node.is_plain = true;
    node.line = node.column = 1;
    node.text = value;
    document.nodes.push_back(std::move(node));
  }
  builder.apply_at(document, document.root, path, source);
}

/// Applies SBATCH_ACCOUNT, SBATCH_PARTITION and SBATCH_QOS, which sbatch would read itself. Inside
/// a job, ignores these variables, because they describe that job.
void apply_sbatch_variables(SpecBuilder& builder, const Env& env, const std::string& current_dir) {
  if (env.has("SLURM_JOB_ID")) return;
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kVariables{
      {{"SBATCH_ACCOUNT", "resources.account"_key},
       {"SBATCH_PARTITION", "resources.partition"_key},
       {"SBATCH_QOS", "resources.qos"_key}}};
  for (const auto& [variable, key] : kVariables) {
    const auto value = env.get(variable);
    if (!value || value->empty()) continue;
    YamlNode node;
    node.kind = YamlNode::Kind::kScalar;
    node.text = *value;
    const SpecSource source{Origin::Kind::kEnv, std::string(variable), "", current_dir, 0};
    builder.apply_at({{node}, 0}, 0, key, source);
  }
}

/// Chooses the site: the spec's site, else $DLRUN_SITE, else the site of the cluster, else
/// 'generic'. Applies the site's defaults to the builder, and returns the site. If the site does
/// not exist, reports an error and returns a site without limits.
[[nodiscard]] Site choose_and_apply_site(SpecBuilder& builder, const LoadRequest& request) {
  std::string name = "generic";
  Origin origin{};
  if (builder.spec().site || !request.env.get_or("DLRUN_SITE", "").empty()) {
    for (Diagnostic& problem : unsearchable_folder_warnings("sites", request.config_dirs))
      builder.report(std::move(problem));
  }
  if (builder.spec().site) {
    name = *builder.spec().site;
    origin = builder.spec().origins["site"];
  } else if (const std::string from_env = request.env.get_or("DLRUN_SITE", ""); !from_env.empty()) {
    name = from_env;
    origin = {Origin::Kind::kEnv, "DLRUN_SITE", 0, 0};
  } else {
    // A job for another cluster (-M) uses that cluster's site.
    const std::string clusters = builder.spec().resources.clusters.value_or("");
    Diagnostics problems;
    name = site_name_of_cluster(clusters.empty() ? request.cluster_name : clusters,
                                request.config_dirs, problems)
               .value_or(name);
    for (Diagnostic& problem : problems) builder.report(std::move(problem));
  }
  auto site = apply_site(builder, name, request.config_dirs, request.current_dir.string());
  if (!site) {
    const auto names = site_names(request.config_dirs);
    const std::vector<std::string_view> candidates(names.begin(), names.end());
    const auto similar = nearest(name, candidates);
    builder.report(
        error_about(origin, fmt::format("there is no site '{}'; {}", printable(name),
                                        similar ? fmt::format("did you mean '{}'?", *similar)
                                                : "known: " + join(names, " "))));
    site.emplace();
    site->profile.name = name;
  }
  builder.spec().site = name;
  if (origin.kind != Origin::Kind::kDefault) builder.spec().origins.try_emplace("site", origin);
  return std::move(*site);
}

/// Refuses values that refer to a secret: the script would show the secret.
void refuse_secrets_in_values(SpecBuilder& builder, const LoadRequest& request,
                              const LoadedSpec& loaded) {
  // The name of each secret, and the advice that ends the message about the secret.
  std::vector<std::pair<std::string, std::string>> secrets;
  for (const SecretSource& secret : builder.spec().environment.secrets)
    secrets.emplace_back(secret.name, "let the program read $" + secret.name);
  for (const auto* name :
       {&builder.spec().notify.webhook_secret, &builder.spec().track.mlflow_secret}) {
    if (*name) secrets.emplace_back(**name, fmt::format("remove ${{{}}} here", **name));
  }
  const auto refuse_if_secret_used = [&](std::string_view text, const Origin& where) {
    for (const auto& [name, advice] : secrets) {
      if (uses_variable(text, name)) {
        builder.report(error_about(
            where,
            fmt::format("{} is a secret: its value must not reach the script; {}", name, advice)));
      }
    }
  };
  if (secrets.empty()) return;
  const auto refuse_in_file = [&](const std::string& name, const std::string& text) {
    const auto document = parse_yaml(text);
    if (!document) return;
    for (const YamlNode& node : document->nodes)
      refuse_if_secret_used(node.text, {Origin::Kind::kFile, name, node.line, node.column});
  };
  refuse_in_file(loaded.file, loaded.text);
  for (const SpecFile& base : loaded.bases) refuse_in_file(base.name, base.text);
  for (const std::string& set : request.set_arguments)
    refuse_if_secret_used(set,
                          {Origin::Kind::kSetOption, set, 1, static_cast<int>(set.find('=')) + 2});
}

/// Sets the name to the file's name without its ending if the spec gives none. Reports an error if
/// the file's name is not a valid run name.
void set_default_name(SpecBuilder& builder, const LoadRequest& request) {
  if (builder.spec().name || builder.refused().contains("name") ||
      builder.correct_spellings().contains("name"))
    return;
  const std::string stem = std::filesystem::path(request.file).stem().string();
  if (is_slug(stem)) {
    builder.spec().name = stem;
  } else {
    builder.report(error_about(
        {Origin::Kind::kFile, request.file, 0, 0},
        fmt::format(
            "name is missing, and the file's name '{}' cannot replace it; set name to at most 64 "
            "letters, digits, '.', '_' and '-', starting with neither '-' nor '.'",
            printable(stem))));
  }
}

/// Parses and applies one file of a spec. remaining: what remains of the limits for all files
/// together; the function subtracts the size of this file. Returns false if the file is not
/// valid YAML, or is a list or text; the caller then skips further checks.
bool apply_file(SpecBuilder& builder, const SpecFile& file, const std::string& folder,
                YamlLimits& remaining) {
  auto document = parse_yaml(file.text, remaining);
  if (!document) {
    const YamlProblem& problem = document.error();
    // load_spec() later hides the source line if it may hold a secret.
    const bool quotes_secret =
        problem.shows_text && line_for_message(file.text, problem.line).is_hidden;
    builder.report({Diagnostic::Severity::kError,
                    {Origin::Kind::kFile, file.name, problem.line, problem.column},
                    quotes_secret ? std::string(kHiddenYamlProblem) : problem.message,
                    {problem.line > 0 ? line_of(file.text, problem.line) : ""}});
    return false;
  }
  remaining.bytes -= std::min(remaining.bytes, file.text.size());
  remaining.nodes -= std::min(remaining.nodes, document->expanded_nodes);
  builder.apply(*document, {Origin::Kind::kFile, file.name, file.text, folder, 0});
  const auto kind = document->at(document->root).kind;
  return kind != YamlNode::Kind::kScalar && kind != YamlNode::Kind::kSequence;
}

/// Returns true for a map that has one of a spec's top-level keys, and for an empty file.
[[nodiscard]] bool is_spec(const YamlDocument& document) {
  const YamlNode& root = document.at(document.root);
  if (root.kind == YamlNode::Kind::kNull) return true;
  if (root.kind != YamlNode::Kind::kMap) return false;
  for (std::size_t i = 0; i < root.items.size(); i += 2) {
    const std::string& key = document.at(root.items[i]).text;
    const auto rows = spec_keys();
    const bool is_key = std::any_of(rows.begin(), rows.end(), [&](const KeyRow& row) {
      return row.path == key || row.path.starts_with(key + ".");
    });
    if (is_key) return true;
  }
  return false;
}

/// If a base is not a spec, reports an error, removes the base's text and returns true. The message
/// shows no text of the file: the spec's author chooses the base, which may be a private file of
/// the user who checks the spec.
[[nodiscard]] bool refuse_if_not_spec(SpecBuilder& builder, SpecFile& base,
                                      const YamlLimits& remaining) {
  const auto document = parse_yaml(base.text, remaining);
  if (document && is_spec(*document)) return false;
  const auto kind = document ? document->at(document->root).kind : YamlNode::Kind::kNull;
  std::string problem = kind == YamlNode::Kind::kMap ? "is not a spec: it has no key of a spec"
                        : kind == YamlNode::Kind::kSequence ? "a spec is a map of keys, not a list"
                                                            : "a spec is a map of keys, not text";
  if (!document)
    problem =
        document.error().shows_text ? "is not YAML that dlrun can read" : document.error().message;
  Origin where{Origin::Kind::kFile, base.name, 1, 1};
  if (!document) where.line = document.error().line, where.column = document.error().column;
  builder.report(error_about(where, fmt::format("{} (a base's text is not shown)", problem)));
  base.text.clear();
  return true;
}

/// Returns the name of a base for messages. The name is relative to the current folder if the base
/// is below that folder and the user gave the spec with a relative path; else it is the whole path.
[[nodiscard]] std::string shown_name(const std::string& path, const LoadRequest& request) {
  const std::string relative =
      std::filesystem::path(path).lexically_relative(request.current_dir).string();
  const bool is_below = !relative.empty() && !relative.starts_with("..");
  return is_below && !request.file.starts_with('/') ? relative : path;
}

/// Applies the files that the spec inherits from, one after the other. remaining: the limits for
/// all these files together. Returns false if a base cannot be used; the caller then skips
/// further checks.
[[nodiscard]] bool apply_bases(SpecBuilder& builder, const LoadRequest& request, LoadedSpec& loaded,
                               YamlLimits remaining) {
  std::error_code ignored;
  const auto refuse = [&](const Origin& where, std::string message) {
    builder.report(error_about(where, std::move(message)));
    return false;
  };
  const auto canonical_path = [&](const std::filesystem::path& path) {
    auto canonical = std::filesystem::weakly_canonical(path, ignored);
    return canonical.empty() ? path : canonical;
  };
  std::vector<std::filesystem::path> seen{canonical_path(request.current_dir / request.file)};
  std::string chain = request.file;
  while (const auto base = builder.take_base()) {
    const auto& [path, origin] = *base;
    SpecFile file{shown_name(path, request), ""};
    chain += " -> " + file.name;
    if (std::find(seen.begin(), seen.end(), canonical_path(path)) != seen.end())
      return refuse(origin, fmt::format("base: the spec inherits from itself: {}", chain));
    seen.push_back(canonical_path(path));
    if (seen.size() > kMostSpecFiles)
      return refuse(origin,
                    fmt::format("base: the spec and its bases are more than {} files; merge "
                                "some of them",
                                kMostSpecFiles));
    auto text = read_file(path, YamlLimits{}.bytes);
    if (!text) return refuse(origin, fmt::format("base: {}", text.error().message));
    file.text = std::move(*text);
    loaded.bases.push_back(std::move(file));
    if (refuse_if_not_spec(builder, loaded.bases.back(), remaining)) return false;
    if (!apply_file(builder, loaded.bases.back(),
                    std::filesystem::path(path).parent_path().string(), remaining))
      return false;
  }
  return true;
}

/// Replaces the fields ({NAME}) of program parameters by the point's values, checks the spec, and
/// reports all problems.
void fill_and_check(SpecBuilder& builder, LoadedSpec& loaded, const SweepPoint& point) {
  for (Diagnostic& problem : fill_templates(loaded.spec, loaded.templates, point,
                                            loaded.preset.is_trainer, builder.refused()))
    builder.report(std::move(problem));
  for (Diagnostic& problem : validate(loaded, builder.refused(), builder.correct_spellings()))
    builder.report(std::move(problem));
}

}  // namespace

tl::expected<LoadedSpec, Diagnostics> load_spec(const LoadRequest& request) {
  const Origin whole_file{Origin::Kind::kFile, request.file, 0, 0};
  LoadedSpec loaded;
  loaded.file = request.file;
  if (request.text) {
    loaded.text = *request.text;
  } else {
    auto text = read_file(request.current_dir / request.file, YamlLimits{}.bytes);
    if (!text) return tl::unexpected(Diagnostics{error_about(whole_file, text.error().message)});
    loaded.text = std::move(*text);
  }
  const std::string current_dir = request.current_dir.string();
  std::string folder =
      (request.current_dir / request.file).parent_path().lexically_normal().string();
  if (folder.size() > 1 && folder.back() == '/') folder.pop_back();

  SpecBuilder builder(request.env);
  if (request.point) apply_point(builder, *request.point);
  for (auto set = request.set_arguments.rbegin(); set != request.set_arguments.rend(); ++set)
    apply_set(builder, *set, current_dir);
  YamlLimits remaining;
  if (apply_file(builder, {request.file, loaded.text}, folder, remaining) &&
      apply_bases(builder, request, loaded, remaining)) {
    if (builder.spec().sweep.is_given() && !request.point) {
      // The values of a sweep's point override all layers. The spec is therefore read again, with
      // the point as the first layer.
      LoadRequest with_point = request;
      with_point.text = std::move(loaded.text);
      with_point.point = first_point(builder.spec().sweep);
      return load_spec(with_point);
    }
    refuse_secrets_in_values(builder, request, loaded);
    apply_sbatch_variables(builder, request.env, current_dir);
    Site site = choose_and_apply_site(builder, request);
    loaded.site_file = {site.profile.source, std::move(site.text)};
    loaded.site = std::move(site.profile);
    if (builder.spec().components.empty()) {
      loaded.preset = choose_preset(builder, request);
    } else {
      choose_component_presets(builder, request, loaded);
    }
    set_default_name(builder, request);
    loaded.folder = folder;
    loaded.spec = builder.spec();
    loaded.templates = swept_templates(loaded.spec);
    fill_and_check(builder, loaded, request.point.value_or(SweepPoint{}));
  }
  Diagnostics all = std::move(builder.diagnostics());
  set_shown_lines(all, loaded);
  sort_by_position(all, loaded);
  if (std::any_of(all.begin(), all.end(), is_error)) return tl::unexpected(std::move(all));
  loaded.warnings = std::move(all);
  log_info("a spec is loaded", {{"spec", request.current_dir / request.file},
                                {"bases", loaded.bases.size()},
                                {"site", loaded.site_file.name},
                                {"preset", loaded.preset.source}});
  return loaded;
}

std::vector<Diagnostic> move_to_point(LoadedSpec& loaded, const SweepPoint& point, const Env& env) {
  SpecBuilder builder(env);
  if (loaded.templates.is_given()) {
    loaded.spec.launch.command = std::move(loaded.templates.command);
    loaded.spec.environment.vars = std::move(loaded.templates.vars);
    loaded.spec.components = std::move(loaded.templates.components);
  }
  // Removes the old origins, and the old entries of maps with arbitrary names. Otherwise the maps
  // would have both the old and the new entries.
  for (const SweptValue& value : point) {
    const std::string_view key = value.key;
    std::erase_if(loaded.spec.origins, [&](const auto& origin) {
      return origin.first.starts_with(key) &&
             (origin.first.size() == key.size() || origin.first[key.size()] == '[');
    });
    const auto name_below = [&](std::string_view map) {
      return key.starts_with(map) ? key.substr(map.size()) : std::string_view();
    };
    std::erase_if(loaded.spec.environment.vars, [&](const auto& entry) {
      return entry.first == name_below("environment.vars.");
    });
    std::erase_if(loaded.spec.slurm,
                  [&](const SlurmOption& option) { return option.name == name_below("slurm."); });
    std::erase_if(loaded.spec.launch.srun, [&](const SlurmOption& option) {
      return option.name == name_below("launch.srun.");
    });
  }
  builder.spec() = std::move(loaded.spec);
  apply_point(builder, point);
  loaded.spec = std::move(builder.spec());
  loaded.templates.command = loaded.spec.launch.command;
  loaded.templates.vars = loaded.spec.environment.vars;
  loaded.templates.components = loaded.spec.components;
  fill_and_check(builder, loaded, point);
  Diagnostics all = std::move(builder.diagnostics());
  set_shown_lines(all, loaded);
  return all;
}

bool affects_other_layers(std::string_view key) {
  // While the layers merge, no site, preset or other key depends on keys with these prefixes.
  constexpr std::array<std::string_view, 4> kIndependentPrefixes{
      "train.", "environment.vars.", "checkpoint.", "launch.command"_key};
  return std::none_of(kIndependentPrefixes.begin(), kIndependentPrefixes.end(),
                      [&](std::string_view prefix) { return key.starts_with(prefix); });
}

std::vector<std::string> site_or_preset_names(std::string_view folder,
                                              const std::vector<std::filesystem::path>& dirs) {
  return config_names(folder, dirs);
}

std::vector<std::filesystem::path> user_config_folders(const Env& env) {
  std::vector<std::filesystem::path> directories;
  if (const std::string folder = env.get_or("DLRUN_CONFIG", ""); !folder.empty())
    directories.emplace_back(folder);
  const std::string xdg = env.get_or("XDG_CONFIG_HOME", ""), home = env.get_or("HOME", "");
  if (!xdg.empty()) {
    directories.push_back(std::filesystem::path(xdg) / "dlrun");
  } else if (!home.empty()) {
    directories.push_back(std::filesystem::path(home) / ".config" / "dlrun");
  }
  return directories;
}

}  // namespace dlrun
