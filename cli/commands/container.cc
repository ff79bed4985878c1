// `dlrun container import`: fetches an image from a registry once, as a file that all jobs share.
// `dlrun container list`: lists these images.

#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/cli.h"
#include "cli/command_line.h"
#include "cli/terminal/print.h"
#include "common/text.h"
#include "common/units.h"
#include "container/image_name.h"
#include "launcher/images/image_import.h"
#include "launcher/view/run_text.h"

namespace dlrun {
namespace {

using Json = nlohmann::ordered_json;

struct ContainerOptions {
  std::string verb, image;
  bool json = false, refresh = false;
};

Result<int> import_and_print(Cli& cli, const ContainerOptions& options) {
  DLRUN_TRY_ASSIGN(const auto uri, enroot_uri(options.image));
  DLRUN_TRY_ASSIGN(const auto imported, import_image(cli.env, uri, options.refresh));
  const StoredImage& image = imported.image;
  if (options.json) {
    Json json = image_json(image);
    json["reused"] = !imported.is_new;
    print_json(json);
    return kExitOk;
  }
  print(cli, "{}\n", image.file.string());
  print_note(cli, fmt::format("{} {}, {}; give this file as container.image",
                              imported.is_new ? "imported" : "already here:", image.image,
                              bytes_text(static_cast<double>(image.bytes))));
  return kExitOk;
}

Result<int> list_images(Cli& cli, const ContainerOptions& options) {
  DLRUN_TRY_ASSIGN(const auto store, ImageStore::of_user(cli.env));
  DLRUN_TRY_ASSIGN(const auto images, store.list());
  if (options.json) {
    Json json = Json::array();
    for (const auto& image : images) json.push_back(image_json(image));
    print_json(json);
    return kExitOk;
  }
  if (images.empty()) {
    print_note(cli, fmt::format("no images in {}", printable(store.folder().string())));
    return kExitOk;
  }
  std::vector<std::vector<std::string>> rows = {{"IMAGE", "SIZE", "AGE", "FILE"}};
  for (const auto& image : images) {
    const auto scheme = image.image.find("://");
    rows.push_back({scheme == std::string::npos ? image.image : image.image.substr(scheme + 3),
                    bytes_text(static_cast<double>(image.bytes)), age(image.imported),
                    image.file.string()});
  }
  print(cli, table(rows));
  return kExitOk;
}

Result<int> container(Cli& cli, const ContainerOptions& options) {
  if (options.verb == "list" && options.refresh)
    return fail(Errc::kUsage,
                "--refresh fetches an image; it cannot be combined with `container list`");
  if (options.verb == "list" && options.image.empty()) return list_images(cli, options);
  if (options.verb == "import" && !options.image.empty()) return import_and_print(cli, options);
  return fail(Errc::kUsage, "expected `dlrun container import IMAGE` or `dlrun container list`");
}

}  // namespace

void add_container(CLI::App& root, Action& action) {
  auto options = std::make_shared<ContainerOptions>();
  Subcommand command(root, "container", "Import container images once for all jobs, and list them");
  command.option("VERB", options->verb, "import or list").required();
  command.option("IMAGE", options->image,
                 "import: name of the image, such as nvcr.io#nvidia/pytorch:24.05-py3 or "
                 "docker://nvcr.io/...");
  command.flag("--refresh", options->refresh,
               "import: fetch the image again, even if it is already stored");
  command.flag("--json", options->json, "Print JSON");
  command.calls(container, options, action);
}

}  // namespace dlrun
