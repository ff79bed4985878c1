#include "container/image_name.h"

#include <algorithm>

#include "common/text.h"

namespace dlrun {
namespace {

constexpr std::string_view kScheme = "docker://";

/// Checks the form [USER@][REGISTRY#]IMAGE[:TAG]: IMAGE[:TAG] is not empty and neither begins nor
/// ends with a separator; a registry has a host, and its port is a number. Does not check the other
/// characters.
[[nodiscard]] bool is_well_formed(std::string_view name) {
  const auto hash = name.find('#');
  const std::string_view image = hash == std::string_view::npos ? name : name.substr(hash + 1);
  constexpr std::string_view kSeparators = "/:#@";
  if (image.empty() || image.find('#') != std::string_view::npos) return false;
  if (kSeparators.find(image.front()) != std::string_view::npos ||
      kSeparators.find(image.back()) != std::string_view::npos)
    return false;
  if (hash == std::string_view::npos) return true;
  std::string_view registry = name.substr(0, hash);
  if (const auto at = registry.rfind('@'); at != std::string_view::npos)
    registry.remove_prefix(at + 1);
  const auto colon = registry.find(':');
  const std::string_view port = colon == std::string_view::npos ? "0" : registry.substr(colon + 1);
  return !registry.substr(0, colon).empty() && !port.empty() &&
         port.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

bool is_image_path(std::string_view image) {
  return image.starts_with('/') || image.starts_with("./") || image.starts_with("../") ||
         image.starts_with("~/");
}

Result<std::string> enroot_uri(std::string_view image) {
  const bool is_uri = image.find("://") != std::string_view::npos;
  if (is_image_path(image) || (!is_uri && (image.ends_with(".sqsh") || image.ends_with(".sif")))) {
    return fail(Errc::kInvalid,
                "'{}' is a file, not an image in a registry: give it as container.image",
                printable(image));
  }
  std::string name(image.starts_with(kScheme) ? image.substr(kScheme.size()) : image);
  const auto no_name = [&] {
    return fail(
        Errc::kInvalid,
        "'{}' is not the name of an image; expected [USER@][REGISTRY#]IMAGE[:TAG], such as {}",
        printable(image), "nvcr.io#nvidia/pytorch:24.05-py3");
  };
  const auto is_forbidden = [](char c) {
    const bool is_word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    return !is_word && std::string_view("._-/:#@+$").find(c) == std::string_view::npos;
  };
  if (name.empty() || name.size() > 200 || name.front() == '-' ||
      name.find("://") != std::string::npos ||
      std::any_of(name.begin(), name.end(), is_forbidden)) {
    return no_name();
  }
  if (name.find('#') == std::string::npos) {
    const auto slash = name.find('/');
    const std::string_view host = std::string_view(name).substr(0, slash);
    const bool is_host = host == "localhost" || host.find_first_of(".:") != std::string_view::npos;
    if (slash != std::string::npos && is_host) name[slash] = '#';
  }
  if (!is_well_formed(name)) return no_name();
  return std::string(kScheme) + name;
}

std::string pyxis_image_name(std::string_view image) {
  const auto uri = enroot_uri(image);
  return uri ? uri->substr(kScheme.size()) : std::string(image);
}

std::string apptainer_image_name(std::string_view image) {
  auto uri = enroot_uri(image);
  if (!uri) return std::string(image);
  if (const auto hash = uri->find('#'); hash != std::string::npos) (*uri)[hash] = '/';
  return std::move(*uri);
}

}  // namespace dlrun
