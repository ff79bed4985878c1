#pragma once
// The versions of slurmrestd's API that dlrun speaks, and the releases of Slurm that serve them.

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace dlrun {

/// A version of the API; k42 is v0.0.42. Later versions compare greater.
enum class RestVersion { k38 = 38, k40 = 40, k41, k42, k43, k44, k45 };

/// All versions that dlrun speaks, the oldest first.
inline constexpr std::array kRestVersions{RestVersion::k38, RestVersion::k40, RestVersion::k41,
                                          RestVersion::k42, RestVersion::k43, RestVersion::k44,
                                          RestVersion::k45};

/// Returns the version as URLs have it: "v0.0.42".
[[nodiscard]] std::string_view rest_version_text(RestVersion version);

/// Returns the version of a text such as "v0.0.42"; nullopt if dlrun does not speak it.
[[nodiscard]] std::optional<RestVersion> parse_rest_version(std::string_view text);

/// Returns the newest version among `served` that dlrun speaks; nullopt if there is none.
[[nodiscard]] std::optional<RestVersion> newest_rest_version(std::span<const std::string> served);

/// Returns the versions that dlrun speaks, for messages: "v0.0.38, v0.0.40, ... and v0.0.45".
[[nodiscard]] std::string supported_rest_versions_text();

/// Returns the versions that dlrun speaks and that the slurmrestd of a Slurm release serves.
/// Returns no versions for a release that dlrun does not know. release: "22.05.8".
[[nodiscard]] std::span<const RestVersion> rest_versions_of_release(std::string_view release);

}  // namespace dlrun
