#include "launcher/spec/rest_version.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "common/text.h"

namespace dlrun {
namespace {

struct VersionName {
  RestVersion version;
  std::string_view text;
};

constexpr std::array kVersionNames{
    VersionName{RestVersion::k38, "v0.0.38"}, VersionName{RestVersion::k40, "v0.0.40"},
    VersionName{RestVersion::k41, "v0.0.41"}, VersionName{RestVersion::k42, "v0.0.42"},
    VersionName{RestVersion::k43, "v0.0.43"}, VersionName{RestVersion::k44, "v0.0.44"},
    VersionName{RestVersion::k45, "v0.0.45"}};
static_assert(kVersionNames.size() == kRestVersions.size());

/// A release of Slurm, with the oldest and the newest version of the API that it serves. Taken from
/// the plugins in Slurm's source.
struct SlurmRelease {
  std::string_view name;
  RestVersion oldest, newest;
};
constexpr std::array kSlurmReleases{SlurmRelease{"22.05", RestVersion::k38, RestVersion::k38},
                                    SlurmRelease{"23.02", RestVersion::k38, RestVersion::k38},
                                    SlurmRelease{"23.11", RestVersion::k38, RestVersion::k40},
                                    SlurmRelease{"24.05", RestVersion::k40, RestVersion::k41},
                                    SlurmRelease{"24.11", RestVersion::k40, RestVersion::k42},
                                    SlurmRelease{"25.05", RestVersion::k40, RestVersion::k43},
                                    SlurmRelease{"25.11", RestVersion::k41, RestVersion::k44},
                                    SlurmRelease{"26.05", RestVersion::k42, RestVersion::k45}};

}  // namespace

std::string_view rest_version_text(RestVersion version) {
  const auto* found =
      std::find_if(kVersionNames.begin(), kVersionNames.end(),
                   [&](const VersionName& name) { return name.version == version; });
  return found == kVersionNames.end() ? std::string_view() : found->text;
}

std::optional<RestVersion> parse_rest_version(std::string_view text) {
  const auto* found = std::find_if(kVersionNames.begin(), kVersionNames.end(),
                                   [&](const VersionName& name) { return name.text == text; });
  return found == kVersionNames.end() ? std::nullopt : std::optional(found->version);
}

std::optional<RestVersion> newest_rest_version(std::span<const std::string> served) {
  std::optional<RestVersion> newest;
  for (const std::string& text : served) {
    const auto version = parse_rest_version(text);
    if (version && (!newest || *version > *newest)) newest = version;
  }
  return newest;
}

std::string supported_rest_versions_text() {
  std::vector<std::string> texts;
  for (const VersionName& name : kVersionNames) texts.emplace_back(name.text);
  const std::string last = texts.back();
  texts.pop_back();
  return fmt::format("{} and {}", join(texts, ", "), last);
}

std::span<const RestVersion> rest_versions_of_release(std::string_view release) {
  // "22.05.8" -> "22.05"
  const auto name = release.substr(0, release.find('.', release.find('.') + 1));
  for (const SlurmRelease& row : kSlurmReleases) {
    if (row.name != name) continue;
    const auto* oldest = std::find(kRestVersions.begin(), kRestVersions.end(), row.oldest);
    const auto* newest = std::find(kRestVersions.begin(), kRestVersions.end(), row.newest);
    return {oldest, newest + 1};
  }
  return {};
}

}  // namespace dlrun
