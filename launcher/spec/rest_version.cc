#include "launcher/spec/rest_version.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "common/text.h"

namespace dlrun {
namespace {

struct Name {
  RestVersion version;
  std::string_view text;
};

constexpr std::array kNames{Name{RestVersion::k38, "v0.0.38"}, Name{RestVersion::k40, "v0.0.40"},
                            Name{RestVersion::k41, "v0.0.41"}, Name{RestVersion::k42, "v0.0.42"},
                            Name{RestVersion::k43, "v0.0.43"}, Name{RestVersion::k44, "v0.0.44"},
                            Name{RestVersion::k45, "v0.0.45"}};
static_assert(kNames.size() == kRestVersions.size());

/// The first and the last version of each release, from the plugins in Slurm's source.
struct Release {
  std::string_view name;
  RestVersion first, last;
};
constexpr std::array kReleases{Release{"22.05", RestVersion::k38, RestVersion::k38},
                               Release{"23.02", RestVersion::k38, RestVersion::k38},
                               Release{"23.11", RestVersion::k38, RestVersion::k40},
                               Release{"24.05", RestVersion::k40, RestVersion::k41},
                               Release{"24.11", RestVersion::k40, RestVersion::k42},
                               Release{"25.05", RestVersion::k40, RestVersion::k43},
                               Release{"25.11", RestVersion::k41, RestVersion::k44},
                               Release{"26.05", RestVersion::k42, RestVersion::k45}};

}  // namespace

std::string_view rest_version_text(RestVersion version) {
  const auto* found = std::find_if(kNames.begin(), kNames.end(),
                                   [&](const Name& name) { return name.version == version; });
  return found == kNames.end() ? std::string_view() : found->text;
}

std::optional<RestVersion> parse_rest_version(std::string_view text) {
  const auto* found = std::find_if(kNames.begin(), kNames.end(),
                                   [&](const Name& name) { return name.text == text; });
  return found == kNames.end() ? std::nullopt : std::optional(found->version);
}

std::optional<RestVersion> newest_rest_version(std::span<const std::string> served) {
  std::optional<RestVersion> newest;
  for (const std::string& text : served) {
    const auto version = parse_rest_version(text);
    if (version && (!newest || *version > *newest)) newest = version;
  }
  return newest;
}

std::string spoken_rest_versions() {
  std::vector<std::string> texts;
  for (const Name& name : kNames) texts.emplace_back(name.text);
  const std::string last = texts.back();
  texts.pop_back();
  return fmt::format("{} and {}", join(texts, ", "), last);
}

std::span<const RestVersion> rest_versions_of_release(std::string_view release) {
  const auto name = release.substr(0, release.find('.', release.find('.') + 1));
  for (const Release& row : kReleases) {
    if (row.name != name) continue;
    const auto* first = std::find(kRestVersions.begin(), kRestVersions.end(), row.first);
    const auto* last = std::find(kRestVersions.begin(), kRestVersions.end(), row.last);
    return {first, last + 1};
  }
  return {};
}

}  // namespace dlrun
