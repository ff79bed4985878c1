// Reads site files. The maps below `defaults` hold keys of a spec: reading a file records only the
// ids of these maps, and apply_site() applies them to a spec later.
#include "launcher/spec/sites.h"

#include <algorithm>
#include <array>
#include <map>

#include <regex.h>

#include "common/files.h"
#include "common/text.h"
#include "container/container.h"
#include "launcher/spec/config_reader.h"
#include "launcher/spec/key_name.h"
#include "launcher/spec/map_reader.h"
#include "launcher/spec/rest_server.h"
#include "launcher/spec/rest_version.h"
#include "launcher/spec/secret_lines.h"
#include "launcher/spec/spec_builder.h"
#include "launcher/spec/value_syntax.h"

namespace dlrun {
namespace {

/// The ids of the YAML maps in a site's file that hold keys of a spec.
struct SpecMapIds {
  std::optional<YamlId> site;   ///< `defaults` of the whole site
  std::vector<YamlId> servers;  ///< each one has the form of a spec's `submit` section
  std::map<std::string, YamlId, std::less<>> partitions;  ///< `defaults` of each partition
};

/// A POSIX extended regular expression that must match a whole cluster name.
class ClusterPattern {
 public:
  explicit ClusterPattern(const std::string& expression)
      : error_(::regcomp(&compiled_, ("^(" + expression + ")$").c_str(),
                         REG_EXTENDED | REG_ICASE | REG_NOSUB)) {}
  ClusterPattern(const ClusterPattern&) = delete;
  ClusterPattern& operator=(const ClusterPattern&) = delete;
  ~ClusterPattern() {
    if (error_ == 0) ::regfree(&compiled_);
  }

  [[nodiscard]] bool matches(const std::string& name) const {
    return error_ == 0 && ::regexec(&compiled_, name.c_str(), 0, nullptr, 0) == 0;
  }
  /// Returns the problem of the expression; empty if it is valid.
  [[nodiscard]] std::string problem() const {
    if (error_ == 0) return {};
    std::array<char, 256> text{};
    ::regerror(error_, &compiled_, text.data(), text.size());
    return text.data();
  }

 private:
  regex_t compiled_{};
  int error_;
};

[[nodiscard]] Result<> check_cluster_pattern(const std::string& pattern) {
  const std::string problem = ClusterPattern(pattern).problem();
  if (!problem.empty()) {
    return fail(Errc::kInvalid, "'{}' is not a cluster's name or an expression for one: {}",
                printable(pattern), problem);
  }
  return {};
}

[[nodiscard]] MapReader::Reader fabric_reader(MapReader& reader, SiteFabric& fabric) {
  return [&reader, &fabric](YamlId id) {
    reader.read(id, {{"infiniband_ports", reader.number(fabric.infiniband_ports)},
                     {"infiniband_gbps", reader.number(fabric.infiniband_gbps)},
                     {"gpu_link", reader.choice(fabric.gpu_link, {"nvlink"})},
                     {"all_reduce", reader.number(fabric.all_reduce)},
                     {"node_all_reduce", reader.number(fabric.node_all_reduce)}});
  };
}

[[nodiscard]] PartitionProfile read_partition(MapReader& reader, YamlId id,
                                              std::optional<YamlId>& defaults) {
  PartitionProfile partition;
  std::string time, memory;
  reader.read(id,
              {{"help", reader.text(partition.help)},
               {"gpus_per_node", reader.number(partition.gpus_per_node)},
               {"gpu_types", reader.list(partition.gpu_types,
                                         [](const auto& type) { return check_gpu_type(type); })},
               {"cpus_per_node", reader.number(partition.cpus_per_node)},
               {"mem_per_node",
                reader.checked(memory, [](const auto& text) { return check_memory(text); })},
               {"max_nodes", reader.number(partition.max_nodes)},
               {"time", reader.checked(time,
                                       [](const auto& text) -> Result<> {
                                         DLRUN_TRY(parse_time_limit(text));
                                         return {};
                                       })},
               {"fabric", fabric_reader(reader, partition.fabric)},
               {"defaults", [&](YamlId at) { defaults = at; }}});
  if (!time.empty()) {
    if (const auto limit = parse_time_limit(time)) partition.max_time_seconds = *limit;
  }
  if (!memory.empty()) partition.mem_per_node_mib = memory_mib(memory);
  return partition;
}

/// Reads a list of maps, each with a url, and optionally a token_file, a version and a user.
void read_servers(MapReader& reader, const ConfigFile& file, YamlId id,
                  std::vector<YamlId>& servers) {
  const YamlNode& list = file.document.at(id);
  if (list.kind != YamlNode::Kind::kSequence)
    return reader.error(list,
                        "expected a list of servers, such as [{url: unix:/run/slurmrestd/socket}]");
  std::vector<std::string_view> versions;
  for (const RestVersion version : kRestVersions) versions.push_back(rest_version_text(version));
  for (const YamlId item : list.items) {
    RestServer server;
    reader.read(item, {{"url", reader.text(server.url)},
                       {"token_file", reader.text(server.token_file)},
                       {"version", reader.choice(server.version, versions)},
                       {"user", reader.text(server.accepted_owner)}});
    const auto url = substitute_variables(server.url, Env());
    const auto address = url ? parse_rest_url(*url) : tl::make_unexpected(url.error());
    if (!address && address.error().code != Errc::kNotFound)
      reader.error(file.document.at(item), address.error().message);
    servers.push_back(item);
  }
}

[[nodiscard]] SiteProfile read_site(const ConfigFile& file, std::string_view name, SpecMapIds& ids,
                                    std::vector<Diagnostic>& problems) {
  SiteProfile site;
  site.name = name;
  site.source = file.source;
  MapReader reader(file, problems);
  NamedValues environment;
  const auto partition = [&](const YamlNode& key, YamlId id) {
    std::optional<YamlId> at;
    site.partitions[key.text] = read_partition(reader, id, at);
    if (at) ids.partitions[key.text] = *at;
  };
  reader.read(
      file.document.root,
      {{"help", reader.text(site.help)},
       {"docs", reader.text(site.docs)},
       {"clusters", reader.list(site.cluster_patterns, check_cluster_pattern)},
       {"gpu_style", reader.choice(site.gpu_style, {"gpus", "gres"})},
       {"container_runtime", reader.choice(site.container_runtime, container_backend_names())},
       {"mpi", reader.text(site.mpi)},
       {"runs_dir", reader.text(site.runs_dir)},
       {"module_init", reader.text(site.module_init)},
       {"interface", reader.text(site.interface)},
       {"default_partition", reader.text(site.default_partition)},
       {"max_gpus_per_node", reader.number(site.max_gpus_per_node)},
       {"fabric", fabric_reader(reader, site.fabric)},
       {"partitions", [&](YamlId id) { reader.each(id, partition); }},
       {"environment", reader.variables(environment)},
       {"slurmrestd", [&](YamlId id) { read_servers(reader, file, id, ids.servers); }},
       {"defaults", [&](YamlId id) { ids.site = id; }}});
  site.environment.insert(environment.begin(), environment.end());
  return site;
}

/// Returns the value at the path below a map; nullopt if there is none.
[[nodiscard]] std::optional<YamlId> value_at(const YamlDocument& document, YamlId id,
                                             std::initializer_list<std::string_view> path) {
  for (std::string_view name : path) {
    const YamlNode& map = document.at(id);
    if (map.kind != YamlNode::Kind::kMap) return std::nullopt;
    std::optional<YamlId> found;
    for (std::size_t i = 0; i + 1 < map.items.size() && !found; i += 2) {
      if (document.at(map.items[i]).text == name) found = map.items[i + 1];
    }
    if (!found) return std::nullopt;
    id = *found;
  }
  return id;
}

/// Checks every map of defaults by applying it to an empty spec.
[[nodiscard]] std::vector<Diagnostic> problems_of_defaults(const ConfigFile& file,
                                                           const SpecMapIds& ids) {
  const Env none;  // the variables are checked when a job uses the default
  const SpecSource source{Origin::Kind::kSite, file.source, file.text, "/", 0};
  std::vector<Diagnostic> problems;
  const auto check = [&](YamlId id) {
    SpecBuilder builder(none, SpecBuilder::UnsetVariable::kLeftOut);
    builder.apply_at(file.document, id, "", source);
    for (Diagnostic& problem : builder.diagnostics()) problems.push_back(std::move(problem));
  };
  if (ids.site) check(*ids.site);
  for (const auto& [name, id] : ids.partitions) check(id);
  return problems;
}

/// Reads the site in a file. The site gets `problems` and the problems of its facts and defaults.
[[nodiscard]] Site site_with_problems(const ConfigFile& file, std::string_view name,
                                      std::vector<Diagnostic> problems) {
  Site site;
  SpecMapIds ids;
  site.problems = std::move(problems);
  site.profile = read_site(file, name, ids, site.problems);
  for (Diagnostic& problem : problems_of_defaults(file, ids))
    site.problems.push_back(std::move(problem));
  site.text = file.text;
  return site;
}

/// Returns the cluster patterns of a built-in file. Does not parse the rest of the file, to save
/// time: every command that plans a job reads all site files.
[[nodiscard]] std::vector<std::string> cluster_patterns_of(std::string_view text) {
  constexpr std::string_view kKey = "clusters:";
  std::size_t begin = 0;
  while (begin < text.size() && !text.substr(begin).starts_with(kKey)) {
    const auto end = text.find('\n', begin);
    begin = end == std::string_view::npos ? text.size() : end + 1;
  }
  if (begin == text.size()) return {};
  auto end = text.find('\n', begin);
  while (end != std::string_view::npos && end + 1 < text.size() &&
         (text[end + 1] == ' ' || text[end + 1] == '-'))
    end = text.find('\n', end + 1);
  const std::string section(text.substr(begin, end == std::string_view::npos ? end : end - begin));
  auto document = parse_yaml(section);
  if (!document) return {};
  const ConfigFile file{Origin::Kind::kSite, "", section, std::move(*document)};
  std::vector<std::string> patterns;
  std::vector<Diagnostic> ignored;
  MapReader reader(file, ignored);
  reader.read(file.document.root, {{"clusters", reader.list(patterns)}});
  return patterns;
}

}  // namespace

std::vector<std::string> site_names(const std::vector<std::filesystem::path>& dirs) {
  return config_names("sites", dirs);
}

std::optional<Site> find_site(std::string_view name,
                              const std::vector<std::filesystem::path>& dirs) {
  if (!is_slug(name)) return std::nullopt;
  std::vector<Diagnostic> problems;
  const auto file = find_config("sites", name, dirs, problems);
  if (file) return site_with_problems(*file, name, std::move(problems));
  if (problems.empty()) return std::nullopt;
  Site broken;
  broken.profile.name = name;
  broken.profile.source = problems.front().where.source;
  broken.problems = std::move(problems);
  return broken;
}

Site parse_site_file(std::string source, std::string text) {
  const std::string name = std::filesystem::path(source).stem().string();
  auto document = parse_yaml(text);
  if (document)
    return site_with_problems(
        {Origin::Kind::kSite, std::move(source), std::move(text), std::move(*document)}, name, {});
  const YamlProblem& problem = document.error();
  Site broken;
  broken.profile.name = name;
  broken.profile.source = source;
  broken.problems.push_back({Diagnostic::Severity::kError,
                             {Origin::Kind::kSite, std::move(source), problem.line, problem.column},
                             problem.message,
                             line_for_message(text, problem.line)});
  broken.text = std::move(text);
  return broken;
}

std::vector<RestServer> servers_of_site(std::string_view name,
                                        const std::vector<std::filesystem::path>& dirs,
                                        const Env& env) {
  std::vector<RestServer> servers;
  std::vector<Diagnostic> ignored;
  const auto file = find_config("sites", name, dirs, ignored);
  if (!file || file->text.find("url") == std::string::npos) return servers;
  SpecMapIds ids;
  static_cast<void>(read_site(*file, name, ids, ignored));
  const SpecSource source{Origin::Kind::kSite, file->source, file->text, "/", 0};
  const auto add = [&](YamlId id, std::string_view path, std::string version = {},
                       std::string user = {}) {
    SpecBuilder builder(env);
    builder.apply_at(file->document, id, path, source);
    const SubmitSpec& submit = builder.spec().submit;
    if (submit.url && parse_rest_url(*submit.url))
      servers.push_back(
          {*submit.url, submit.token_file.value_or(""), std::move(version), std::move(user)});
  };
  for (const YamlId id : ids.servers) {
    const auto text_of = [&](const char* key) {
      const auto value = value_at(file->document, id, {key});
      return value ? file->document.at(*value).text : std::string();
    };
    add(id, "submit", text_of("version"), text_of("user"));
  }
  if (ids.site) add(*ids.site, "");
  for (const auto& [partition, id] : ids.partitions) add(id, "");
  return servers;
}

std::optional<std::string> site_name_of_cluster(std::string_view cluster_name,
                                                const std::vector<std::filesystem::path>& dirs,
                                                std::vector<Diagnostic>& problems) {
  for (Diagnostic& problem : unsearchable_folder_warnings("sites", dirs))
    problems.push_back(std::move(problem));
  if (cluster_name.empty()) return std::nullopt;
  const std::string cluster(cluster_name);
  const auto matches_cluster = [&](const std::string& pattern) {
    return ClusterPattern(pattern).matches(cluster);
  };
  for (const std::string& name : site_names(dirs)) {
    if (const auto built_in = effective_built_in_config("sites", name, dirs)) {
      const auto patterns = cluster_patterns_of(*built_in);
      if (std::any_of(patterns.begin(), patterns.end(), matches_cluster)) return name;
      continue;
    }
    std::vector<Diagnostic> file_problems;
    const auto file = find_config("sites", name, dirs, file_problems);
    bool is_skipped = !file;
    if (file) {
      SpecMapIds ids;
      const SiteProfile site = read_site(*file, name, ids, file_problems);
      is_skipped = site.cluster_patterns.empty() &&
                   value_at(file->document, file->document.root, {"clusters"}).has_value();
      if (std::any_of(site.cluster_patterns.begin(), site.cluster_patterns.end(), matches_cluster))
        return name;
    }
    for (Diagnostic& problem : file_problems) {
      problem.severity = Diagnostic::Severity::kWarning;
      if (is_skipped) problem.message += "; the site is skipped";
      problems.push_back(std::move(problem));
    }
  }
  return std::nullopt;
}

std::optional<Site> apply_site(SpecBuilder& builder, std::string_view name,
                               const std::vector<std::filesystem::path>& dirs,
                               const std::string& current_dir) {
  Site site;
  SpecMapIds ids;
  const auto file = is_slug(name) ? find_config("sites", name, dirs, site.problems) : std::nullopt;
  site.profile.name = name;
  if (file) {
    site.profile = read_site(*file, name, ids, site.problems);
    site.text = file->text;
  }
  if (!file && site.problems.empty()) return std::nullopt;
  for (const Diagnostic& problem : site.problems) builder.report(problem);
  if (!file) return site;

  const SpecSource source{Origin::Kind::kSite, file->source, file->text, current_dir, 0};
  builder.exclude_alternatives();
  // The partition comes first, because its defaults are stronger than the site's.
  const auto partition_id =
      ids.site ? value_at(file->document, *ids.site, {"resources", "partition"}) : std::nullopt;
  if (partition_id)
    builder.apply_at(file->document, *partition_id, "resources.partition"_key, source);
  const std::string partition =
      builder.spec().resources.partition.value_or(site.profile.default_partition);
  if (const auto found = ids.partitions.find(partition); found != ids.partitions.end()) {
    builder.apply_at(file->document, found->second, "", source);
    builder.exclude_alternatives();
  }
  if (ids.site) builder.apply_at(file->document, *ids.site, "", source);
  return site;
}

Result<Site> require_site(std::string_view name, const std::vector<std::filesystem::path>& dirs) {
  auto site = find_site(name, dirs);
  if (site) return std::move(*site);
  return fail(Errc::kNotFound, "there is no site '{}'; the known sites are {}", printable(name),
              join(site_names(dirs), " "));
}

std::vector<Site> all_sites(const std::vector<std::filesystem::path>& dirs) {
  auto names = site_names(dirs);
  std::sort(names.begin(), names.end());
  std::vector<Site> sites;
  for (const std::string& name : names) {
    if (auto site = find_site(name, dirs)) sites.push_back(std::move(*site));
  }
  return sites;
}

Result<Site> site_of_name_or_file(const std::string& name_or_file,
                                  const std::filesystem::path& folder,
                                  const std::vector<std::filesystem::path>& dirs) {
  if (name_or_file.find('/') == std::string::npos && !name_or_file.ends_with(".yaml"))
    return require_site(name_or_file, dirs);
  constexpr std::size_t kLargest = 1U << 20U;
  DLRUN_TRY_ASSIGN(auto content, read_file(folder / name_or_file, kLargest));
  return parse_site_file(name_or_file, std::move(content));
}

}  // namespace dlrun
