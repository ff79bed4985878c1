#pragma once
// A problem of a spec, and the line of a file, the option or the environment variable that causes
// it.

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace dlrun {

/// The place that a value comes from.
struct Origin {
  enum class Kind { kDefault, kFile, kSite, kPreset, kEnv, kSetOption };
  Kind kind = Kind::kDefault;
  /// kFile, kSite, kPreset: the path of the file, as it was given; kEnv: the variable; kSetOption:
  /// the argument of --set, or another option that sets the key (--chain, --rehearse).
  std::string source;
  int line = 0;    ///< from 1; 0: the source has no lines
  int column = 0;  ///< from 1
};

/// The line of a source that a message shows.
struct SourceLine {
  std::string text;        ///< empty: the source has no lines, or the line must not be shown
  bool is_hidden = false;  ///< the line may hold a secret, so a note stands in its place

  [[nodiscard]] bool empty() const { return text.empty() && !is_hidden; }
};

/// An error or a warning about a spec.
struct Diagnostic {
  enum class Severity { kError, kWarning };
  Severity severity = Severity::kError;
  Origin where;
  std::string message;
  SourceLine line;
  std::string key{};  ///< the key of the spec that the problem is about; empty if there is none
  /// The request exceeds a limit of its partition: Slurm may queue the job and never start it.
  bool may_prevent_start = false;
};

[[nodiscard]] inline bool is_error(const Diagnostic& diagnostic) {
  return diagnostic.severity == Diagnostic::Severity::kError;
}

/// The diagnostics of an error. Most errors have no diagnostics, so an empty list is only a null
/// pointer. Two functions are not inlined, so that the code of every function that returns an Error
/// stays small.
class DiagnosticList {
 public:
  DiagnosticList() = default;
  explicit(false) DiagnosticList(std::vector<Diagnostic> list)
      : list_(list.empty() ? List() : copy_of(list)) {}
  DiagnosticList(const DiagnosticList& other)
      : list_(other.list_ ? copy_of(*other.list_) : List()) {}
  DiagnosticList(DiagnosticList&& other) noexcept = default;
  DiagnosticList& operator=(DiagnosticList other) noexcept {
    list_.swap(other.list_);
    return *this;
  }
  ~DiagnosticList() = default;

  [[nodiscard]] bool empty() const { return list_ == nullptr; }
  [[nodiscard]] std::vector<Diagnostic> all() const {
    return list_ ? *list_ : std::vector<Diagnostic>();
  }

 private:
  struct Delete {
    [[gnu::noinline]] void operator()(const std::vector<Diagnostic>* list) const { delete list; }
  };
  using List = std::unique_ptr<const std::vector<Diagnostic>, Delete>;
  [[nodiscard, gnu::noinline]] static List copy_of(const std::vector<Diagnostic>& list) {
    return List(new std::vector<Diagnostic>(list));
  }

  List list_;
};

}  // namespace dlrun
