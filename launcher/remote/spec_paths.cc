#include "launcher/remote/spec_paths.h"

#include <algorithm>

#include "common/text.h"
#include "common/untrusted_file.h"
#include "launcher/spec/config_reader.h"
#include "launcher/spec/key_name.h"
#include "launcher/spec/load.h"
#include "launcher/spec/secret_lines.h"
#include "launcher/spec/spec_builder.h"
#include "launcher/spec/spec_keys.h"

namespace dlrun {
namespace {

constexpr std::size_t kLargestSpec = 1U << 20U;

/// Returns true if the value of a key with this format is a path.
bool is_path(Format format, std::string_view value) {
  if (format == Format::kPath || format == Format::kPathPattern) return true;
  if (format == Format::kMaybePath) return value.find('/') != std::string_view::npos;
  if (format != Format::kImage) return false;
  return value.starts_with('/') || value.starts_with("./") || value.starts_with("../");
}

/// Checks the paths of one spec.
class PathCheck {
 public:
  PathCheck(std::filesystem::path file, std::string text, const CodeTree& tree)
      : file_(std::move(file)), text_(std::move(text)), tree_(tree) {}

  /// Adds wrong paths to `problems`, and paths that exist on this machine to `local`. Returns the
  /// path of the base; empty if there is none.
  std::filesystem::path check(std::vector<Diagnostic>& problems, std::vector<LocalPath>& local) {
    const auto document = parse_yaml(text_);
    if (!document || document->nodes.empty()) return {};
    document_ = &*document;
    problems_ = &problems;
    local_ = &local;
    visit(document->root, "");
    return base_;
  }

 private:
  void visit(YamlId id, const std::string& key) {
    const YamlNode& node = document_->at(id);
    if (node.kind == YamlNode::Kind::kMap) {
      for (std::size_t i = 0; i + 1 < node.items.size(); i += 2) {
        const std::string& name = document_->at(node.items[i]).text;
        visit(node.items[i + 1], key.empty() ? name : key + "." + name);
      }
    } else if (node.kind == YamlNode::Kind::kSequence) {
      // A component has the same sections as a spec, such as container. So its keys are looked up
      // without `components`.
      for (const YamlId item : node.items) visit(item, key == "components"_key ? "" : key);
    } else if (node.kind == YamlNode::Kind::kScalar) {
      const KeyRow* row = find_key(key);
      if (row == nullptr) row = find_key(key_of_single_value(key));
      const bool is_source = key == "stage.from";
      if (is_source || (row != nullptr && is_path(row->format, node.text))) check_value(key, node);
    }
  }

  void check_value(const std::string& key, const YamlNode& node) {
    const std::string& value = node.text;
    if (value.starts_with('~') || value.find("${") != std::string::npos) return;
    const std::filesystem::path path(value);
    const auto absolute = (file_.parent_path() / path).lexically_normal();
    const auto from_top = absolute.lexically_relative(tree_.top);
    const bool is_inside = !from_top.empty() && *from_top.begin() != "..";
    Diagnostic at{Diagnostic::Severity::kError,
                  {Origin::Kind::kFile, file_.string(), node.line, node.column},
                  "",
                  line_for_message(text_, node.line)};
    std::error_code error;
    if (path.is_relative() && is_inside) {
      if (key == "base") base_ = absolute;
    } else if (path.is_relative()) {
      at.message = fmt::format(
          "{}: '{}' leaves the repository {}, and the host gets a copy of this repository only. "
          "Put the file into the repository, or write the file's absolute path on the host",
          key, printable(value), tree_.top.string());
      problems_->push_back(std::move(at));
    } else if (is_inside) {
      at.message = fmt::format(
          "{}: '{}' is a path on this machine, but the host uses its own copy of the repository. "
          "Write the path relative to the spec: {}",
          key, printable(value), absolute.lexically_relative(file_.parent_path()).string());
      problems_->push_back(std::move(at));
    } else if (std::filesystem::exists(absolute, error)) {
      local_->push_back({key, value, std::move(at)});
    }
  }

  std::filesystem::path file_, base_;
  std::string text_;
  const CodeTree& tree_;
  const YamlDocument* document_ = nullptr;
  std::vector<Diagnostic>* problems_ = nullptr;
  std::vector<LocalPath>* local_ = nullptr;
};

}  // namespace

Result<std::vector<LocalPath>> check_spec_paths(const std::filesystem::path& spec,
                                                const CodeTree& tree) {
  std::vector<Diagnostic> problems;
  std::vector<LocalPath> local;
  std::filesystem::path file = spec;
  for (std::size_t i = 0; i < kMostSpecFiles && !file.empty(); ++i) {
    auto text = read_untrusted(file, kLargestSpec, Links::kFollow);
    if (!text && i == 0) return tl::unexpected(text.error());
    if (!text) break;  // the host reports a base that is missing
    file = PathCheck(file, std::move(*text), tree).check(problems, local);
  }
  if (!problems.empty()) return fail(Errc::kInvalid, std::move(problems));
  return local;
}

Result<> refuse_missing(const std::vector<LocalPath>& local,
                        const std::vector<std::string>& missing, const std::string& host) {
  std::vector<Diagnostic> problems;
  for (const LocalPath& one : local) {
    if (std::find(missing.begin(), missing.end(), one.path) == missing.end()) continue;
    problems.push_back(one.at);
    problems.back().message = fmt::format(
        "{}: '{}' exists on this machine but not on {}; copy it there, or "
        "write a path that exists there",
        one.key, printable(one.path), host);
  }
  if (problems.empty()) return {};
  return fail(Errc::kInvalid, std::move(problems));
}

}  // namespace dlrun
