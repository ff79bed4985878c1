// `dlrun container import`: fetches an image from a registry once, as a file that all jobs share.
// `dlrun container list`: lists these images.

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/cli.h"
#include "cli/command_line.h"
#include "cli/report.h"
#include "cli/terminal/print.h"
#include "cli/terminal/words.h"
#include "common/subprocess.h"
#include "common/text.h"
#include "container/image_name.h"
#include "launcher/executors/foreground.h"
#include "launcher/runs/images.h"

namespace dlrun {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string what, image;
  bool json = false, refresh = false;
};

[[nodiscard]] Json json_of(const StoredImage& stored) {
  return {{"image", stored.image},
          {"digest", stored.digest},
          {"file", stored.file.string()},
          {"bytes", stored.bytes},
          {"imported", stored.imported}};
}

struct RegistryWord {
  /// The name's current digest; empty if this enroot cannot ask, or if nobody answers.
  std::string digest;
  std::string unreachable;  ///< curl's error if the registry did not answer; empty if it answered
};

/// Returns curl's error line if the host was not found or did not answer; otherwise "".
[[nodiscard]] std::string unreachable_in(std::string_view words) {
  for (const std::string_view line : split(words, '\n')) {
    const auto at = line.find("curl: (");
    if (at == std::string_view::npos) continue;
    const std::string_view told = line.substr(at);
    for (const std::string_view number : {"(5)", "(6)", "(7)", "(28)", "(35)", "(52)", "(56)"}) {
      if (told.substr(6).starts_with(number)) return printable(told);
    }
  }
  return "";
}

[[nodiscard]] RegistryWord ask_registry(const Cli& cli, const std::string& uri) {
  Command command;
  command.argv = {"enroot", "digest", uri};
  command.env = cli.env;
  const auto asked = run_command(command);
  if (!asked) return {};
  if (asked->exit_code != 0) return {"", unreachable_in(asked->err)};
  const std::string_view text = trim(asked->out);
  return {std::string(text.substr(0, 7) == "sha256:" ? text.substr(7) : text), ""};
}

/// Removes the file in the destructor, unless ImageStore::adopt() has moved it away.
class NewFile {
 public:
  explicit NewFile(std::filesystem::path path) : path_(std::move(path)) {}
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

Result<StoredImage> fetch(const Cli& cli, const ImageStore& store, const std::string& uri,
                          const RegistryWord& registry) {
  const NewFile file(store.new_file());
  auto child = ForegroundProcess::start({"enroot", "import", "--output", file.path().string(), uri},
                                        cli.env, store.folder(), OnSignal::kTerminate);
  if (!child) return tl::unexpected(child.error());
  child->release();
  const auto end = child->wait();
  if (!end) return tl::unexpected(end.error());
  if (end->interrupted != 0)
    return fail(Errc::kInterrupted, "interrupted; nothing of {} is kept", uri);
  if (end->exit_code != 0) {
    if (!registry.unreachable.empty()) {
      return fail(Errc::kUnavailable,
                  "the registry of {} cannot be reached from here: {}. Import it where the "
                  "internet can be reached, and "
                  "copy the file",
                  uri, registry.unreachable);
    }
    return fail(Errc::kNotFound,
                "enroot could not import {} (it ended with {}); its words are above", uri,
                end->exit_code);
  }
  return store.adopt(file.path(), uri, registry.digest);
}

/// Returns the stored image, or fetches it. Sets `is_new` if it was fetched.
Result<StoredImage> import_once(const Cli& cli, const ImageStore& store, const std::string& uri,
                                bool refresh, bool& is_new) {
  const auto lock = store.lock(uri);
  if (!lock) return tl::unexpected(lock.error());
  const auto known = store.find(uri);
  const RegistryWord registry = ask_registry(cli, uri);
  const std::string& digest = registry.digest;
  is_new = false;
  if (!refresh) {
    if (known && (digest.empty() || digest == known->digest)) return *known;
    if (!digest.empty() && store.file_of(digest)) return store.note(uri, digest);
  }
  is_new = true;
  return fetch(cli, store, uri, registry);
}

Result<int> import_image(Cli& cli, const Options& options) {
  const auto uri = enroot_uri(options.image);
  if (!uri) return tl::unexpected(uri.error());
  if (!find_program("enroot", cli.env)) {
    return fail(
        Errc::kNotFound,
        "there is no enroot in PATH; on a cluster, load its module or use a node that has it");
  }
  const auto store = ImageStore::of_user(cli.env);
  if (!store) return tl::unexpected(store.error());
  bool is_new = false;
  const auto image = import_once(cli, *store, *uri, options.refresh, is_new);
  if (!image) return tl::unexpected(image.error());
  if (options.json) {
    Json json = json_of(*image);
    json["reused"] = !is_new;
    print_json(json);
    return kExitOk;
  }
  print(cli, "{}\n", image->file.string());
  print_note(cli, fmt::format("{} {}, {}; give it as container.image",
                              is_new ? "imported" : "already here:", image->image,
                              bytes_text(static_cast<double>(image->bytes))));
  return kExitOk;
}

Result<int> list_images(Cli& cli, const Options& options) {
  const auto store = ImageStore::of_user(cli.env);
  if (!store) return tl::unexpected(store.error());
  const auto images = store->list();
  if (!images) return tl::unexpected(images.error());
  if (options.json) {
    Json json = Json::array();
    for (const auto& image : *images) json.push_back(json_of(image));
    print_json(json);
    return kExitOk;
  }
  if (images->empty()) {
    print_note(cli, fmt::format("no images in {}", store->folder().string()));
    return kExitOk;
  }
  std::vector<std::vector<std::string>> rows = {{"IMAGE", "SIZE", "AGE", "FILE"}};
  for (const auto& image : *images) {
    const auto scheme = image.image.find("://");
    rows.push_back({scheme == std::string::npos ? image.image : image.image.substr(scheme + 3),
                    bytes_text(static_cast<double>(image.bytes)), age(image.imported),
                    image.file.string()});
  }
  print(cli, table(rows));
  return kExitOk;
}

Result<int> container(Cli& cli, const Options& options) {
  if (options.what == "list" && options.image.empty() && !options.refresh)
    return list_images(cli, options);
  if (options.what == "import" && !options.image.empty()) return import_image(cli, options);
  return fail(Errc::kUsage, "expected `dlrun container import IMAGE` or `dlrun container list`");
}

}  // namespace

void add_container(CLI::App& root, Action& action) {
  auto options = std::make_shared<Options>();
  Subcommand command(root, "container", "Import container images once for all jobs, and list them");
  command.option("VERB", options->what, "import or list").required();
  command.option("IMAGE", options->image,
                 "import: name of the image, such as nvcr.io#nvidia/pytorch:24.05-py3 or "
                 "docker://nvcr.io/...");
  command.flag("--refresh", options->refresh,
               "import: fetch the image again, even if it is already stored");
  command.flag("--json", options->json, "Print JSON");
  command.on_call(
      [options, &action] { action = [options](Cli& cli) { return container(cli, *options); }; });
}

}  // namespace dlrun
