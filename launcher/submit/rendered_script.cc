#include "launcher/submit/rendered_script.h"

#include <fcntl.h>

#include <cerrno>
#include <utility>

#include "common/files.h"
#include "common/sha256.h"
#include "common/subprocess.h"
#include "common/text.h"
#include "common/untrusted_file.h"
#include "launcher/executors/slurm_conf.h"
#include "launcher/plan/render.h"
#include "launcher/runs/carried_spec.h"
#include "launcher/runs/resolve.h"
#include "launcher/runs/sweep_record.h"
#include "launcher/submit/script_file.h"

namespace dlrun {
namespace {

struct FoundScript {
  std::filesystem::path path;
  Links links = Links::kRefuse;  ///< kFollow for a file that the user named
};

/// Finds a script file, or the script that a run was submitted with.
Result<FoundScript> script_of(const Context& context, const std::string& what) {
  auto path = (context.current_dir / what).lexically_normal();
  if (const auto text = read_file(path, kScriptLimitBytes); text && is_script(*text))
    return FoundScript{std::move(path), Links::kFollow};
  DLRUN_TRY_ASSIGN(const auto run, find_run(context.env, context.current_dir, what));
  return FoundScript{run.path / "job.sh"};
}

/// Returns the script that `dlrun render` writes for the spec. For a sweep, returns the script of
/// its first array.
Result<std::string> rendered_of(const Context& context, const Experiment& prepared) {
  if (!prepared.is_sweep()) return render_script(prepared.plan);
  DLRUN_TRY_ASSIGN(auto sweep, sweep_to_render(context, prepared));
  return std::move(sweep.arrays.front().script);
}

/// Returns the output of `diff -u` for the rendered text and the script.
Result<std::string> difference_of(const Env& env, std::string rendered,
                                  const std::filesystem::path& script) {
  Command command;
  command.argv = {"diff",          "-u", "--color=never", "--label", "as rendered", "--label",
                  script.string(), "-",  script.string()};
  command.stdin_text = std::move(rendered);
  command.env = env;
  DLRUN_TRY_ASSIGN(auto done, run_command(command));
  if (done.exit_code > 1) return fail(Errc::kIo, "diff: {}", done.err);
  return done.exit_code == 0 ? std::string() : std::move(done.out);
}

}  // namespace

std::string script_with_spec(const Experiment& prepared, const std::string& script) {
  return with_carried_spec(script,
                           {resolved_yaml(prepared.loaded), DLRUN_VERSION, prepared.loaded.folder,
                            prepared.plan.runs_dir, prepared.plan.agent, ""});
}

Result<SweepPlan> sweep_to_render(const Context& context, const Experiment& prepared) {
  return prepare_sweep(prepared, configured_max_array_size(context.env));
}

Result<> write_script(const std::filesystem::path& path, const std::string& script, bool force) {
  std::error_code error;
  const auto kind = std::filesystem::status(path, error).type();
  if (kind == std::filesystem::file_type::regular ||
      kind == std::filesystem::file_type::not_found) {
    if (kind == std::filesystem::file_type::regular && !force) {
      const auto before = read_file(path, kScriptLimitBytes);
      if (!before)
        return fail(Errc::kUsage,
                    "{}: exists, and dlrun cannot read it to find out whether `dlrun render` wrote "
                    "it: {}. Name a different file with -o, or overwrite this one with --force",
                    printable(path.string()), before.error().message);
      if (!before->empty() && *before != script && !is_unedited(*before)) {
        return fail(Errc::kUsage,
                    "{}: exists, and is not what `dlrun render` wrote: it was edited by hand, or "
                    "dlrun did not write it. Name a different file with -o, or overwrite this one "
                    "with --force",
                    printable(path.string()));
      }
    }
    const auto target = std::filesystem::weakly_canonical(path, error);
    return write_file_atomic(error ? path : target, script, 0755);
  }
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd.is_open())
    return fail(Errc::kIo, "cannot write {}: {}", printable(path.string()), errno_text(errno));
  if (auto written = write_all(fd.get(), script); !written)
    return fail(Errc::kIo, "cannot write {}: {}", printable(path.string()),
                written.error().message);
  return {};
}

Result<ScriptChanges> changes_of_script(const Context& context, Reporter& reporter,
                                        const std::string& what) {
  using Kind = ScriptChanges::Kind;
  DLRUN_TRY_ASSIGN(const auto found, script_of(context, what));
  const auto folder = found.path.parent_path();
  if (is_sweep(folder)) return ScriptChanges{Kind::kScriptsOfPoints, ""};
  DLRUN_TRY_ASSIGN(const auto text, read_untrusted(found.path, kScriptLimitBytes, found.links));
  const auto carried = carried_spec(text);
  if (!carried) {
    std::error_code error;
    // `dlrun submit SPEC` renders a script that does not contain the spec. The directory of the
    // run, or of the sweep's point, has resolved.yaml instead.
    if (std::filesystem::exists(folder / "resolved.yaml", error))
      return ScriptChanges{Kind::kWithoutSpec, ""};
    return fail(Errc::kNotFound,
                "{}: carries no spec to compare with: `dlrun render` did not write it, or its last "
                "comment lines are gone",
                printable(found.path.string()));
  }
  DLRUN_TRY_ASSIGN(const auto prepared, prepare_carried(context, *carried));
  DLRUN_TRY_ASSIGN(const auto rendered, rendered_of(context, prepared));
  if (sha256_of_text(rendered) != carried->sha256) {
    reporter.warning(fmt::format(
        "the script was rendered by dlrun {}, and dlrun {} renders its spec differently "
        "now: dlrun or a file that the spec uses, such as the site's, has changed. Some "
        "of the differences are not edits",
        carried->version, DLRUN_VERSION));
  }
  ScriptChanges changes;
  DLRUN_TRY_ASSIGN(changes.difference,
                   difference_of(context.env, rendered + carried_lines(text), found.path));
  if (changes.difference.empty()) changes.kind = Kind::kNone;
  return changes;
}

}  // namespace dlrun
