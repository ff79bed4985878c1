#include "container/image_name.h"

#include <algorithm>

#include "common/text.h"

namespace dlrun {
namespace {

constexpr std::string_view kScheme = "docker://";

}  // namespace

bool is_image_path(std::string_view image) {
  return image.starts_with('/') || image.starts_with("./") || image.starts_with("../") || image.starts_with("~/");
}

Result<std::string> enroot_uri(std::string_view image) {
  if (is_image_path(image) || image.ends_with(".sqsh") || image.ends_with(".sif")) {
    return fail(Errc::kInvalid, "'{}' is a file, not an image in a registry: give it as container.image",
                printable(image));
  }
  std::string name(image.starts_with(kScheme) ? image.substr(kScheme.size()) : image);
  const auto is_odd = [](char c) {
    const bool is_word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    return !is_word && std::string_view("._-/:#@+$").find(c) == std::string_view::npos;
  };
  if (name.empty() || name.size() > 200 || name.front() == '-' || name.find("://") != std::string::npos ||
      std::any_of(name.begin(), name.end(), is_odd)) {
    return fail(Errc::kInvalid, "'{}' is not the name of an image; expected [USER@][REGISTRY#]IMAGE[:TAG], such as {}",
                printable(image), "nvcr.io#nvidia/pytorch:24.05-py3");
  }
  if (name.find('#') == std::string::npos) {
    const auto slash = name.find('/');
    const std::string_view host = std::string_view(name).substr(0, slash);
    const bool is_host = host == "localhost" || host.find_first_of(".:") != std::string_view::npos;
    if (slash != std::string::npos && is_host) name[slash] = '#';
  }
  return std::string(kScheme) + name;
}

std::string pyxis_image(std::string_view image) {
  const auto uri = enroot_uri(image);
  return uri ? uri->substr(kScheme.size()) : std::string(image);
}

}  // namespace dlrun
