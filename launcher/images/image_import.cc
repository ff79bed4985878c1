#include "launcher/images/image_import.h"

#include <filesystem>
#include <string_view>

#include "common/subprocess.h"
#include "common/text.h"
#include "launcher/executors/foreground.h"

namespace dlrun {
namespace {

struct RegistryAnswer {
  /// The digest of the image that the registry has under this name now; empty if this version of
  /// enroot cannot query digests, or if the registry does not answer.
  std::string digest;
  /// curl's error if enroot reports that the registry did not answer; otherwise empty.
  std::string connection_error;
};

/// Returns curl's error in the output of enroot if the host was not found or did not answer;
/// otherwise "".
[[nodiscard]] std::string connection_error_in(std::string_view output) {
  for (const std::string_view line : split(output, '\n')) {
    const auto at = line.find("curl: (");
    if (at == std::string_view::npos) continue;
    const std::string_view message = line.substr(at);
    for (const std::string_view number : {"(5)", "(6)", "(7)", "(28)", "(35)", "(52)", "(56)"}) {
      if (message.substr(6).starts_with(number)) return printable(message);
    }
  }
  return "";
}

/// Asks the registry for the digest of an image, by `enroot digest`.
[[nodiscard]] RegistryAnswer ask_registry(const Env& env, const std::string& uri) {
  Command command;
  command.argv = {"enroot", "digest", uri};
  command.env = env;
  const auto asked = run_command(command);
  if (!asked) return {};
  if (asked->exit_code != 0) return {"", connection_error_in(asked->err)};
  const std::string_view text = trim(asked->out);
  return {std::string(text.substr(0, 7) == "sha256:" ? text.substr(7) : text), ""};
}

/// The file that an import writes. The destructor removes the file, unless ImageStore::adopt() has
/// moved it.
class TemporaryImageFile {
 public:
  explicit TemporaryImageFile(std::filesystem::path path) : path_(std::move(path)) {}
  TemporaryImageFile(const TemporaryImageFile&) = delete;
  TemporaryImageFile& operator=(const TemporaryImageFile&) = delete;
  ~TemporaryImageFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

Result<StoredImage> fetch(const Env& env, const ImageStore& store, const std::string& uri,
                          const RegistryAnswer& registry) {
  const TemporaryImageFile file(store.new_path());
  DLRUN_TRY_ASSIGN(auto child, ForegroundProcess::start(
                                   {"enroot", "import", "--output", file.path().string(), uri}, env,
                                   store.folder(), OnSignal::kTermThenKill));
  child.let_run();
  DLRUN_TRY_ASSIGN(const auto end, child.wait());
  if (end.first_signal != 0)
    return fail(Errc::kInterrupted, "interrupted; no part of {} is kept", uri);
  if (end.exit_code != 0) {
    if (!registry.connection_error.empty()) {
      return fail(Errc::kUnavailable,
                  "the registry of {} cannot be reached from here: {}. Import the image on a "
                  "machine with access to the internet, and copy its file",
                  uri, registry.connection_error);
    }
    return fail(Errc::kNotFound,
                "enroot could not import {} (exit code {}); see the messages of enroot above", uri,
                end.exit_code);
  }
  return store.adopt(file.path(), uri, registry.digest);
}

}  // namespace

Result<ImportedImage> import_image(const Env& env, const std::string& uri, bool refresh) {
  if (!find_program("enroot", env)) {
    return fail(
        Errc::kNotFound,
        "there is no enroot in PATH; on a cluster, load its module or use a node that has it");
  }
  DLRUN_TRY_ASSIGN(const auto store, ImageStore::of_user(env));
  DLRUN_TRY_ASSIGN(const auto lock, store.lock(uri));
  const auto known = store.find(uri);
  const RegistryAnswer registry = ask_registry(env, uri);
  const std::string& digest = registry.digest;
  const auto imported = [](Result<StoredImage> image, bool is_new) -> Result<ImportedImage> {
    if (!image) return tl::unexpected(image.error());
    return ImportedImage{std::move(*image), is_new};
  };
  if (!refresh) {
    if (known && (digest.empty() || digest == known->digest)) return imported(*known, false);
    if (!digest.empty() && store.file_of(digest))
      return imported(store.record_digest(uri, digest), false);
  }
  return imported(fetch(env, store, uri, registry), true);
}

}  // namespace dlrun
