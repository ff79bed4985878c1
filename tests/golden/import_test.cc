// Imports each job script of the folder `imported`, and compares the spec, the remarks and the
// warnings with golden files.

#include <algorithm>
#include <vector>

#include "golden.h"
#include "launcher/import/script_import.h"
#include "launcher/spec/diagnostic_text.h"
#include "launcher/spec/load.h"

namespace dlrun {
namespace {

namespace fs = std::filesystem;

TEST_CASE("the spec, remarks and warnings of every job script match their goldens") {
  std::vector<fs::path> scripts;
  for (const auto& entry : fs::directory_iterator(golden::folder() / "imported")) {
    if (entry.path().extension() == ".sbatch") scripts.push_back(entry.path());
  }
  std::sort(scripts.begin(), scripts.end());
  REQUIRE(scripts.size() >= 7);
  for (const fs::path& file : scripts) {
    INFO(file.string());
    ImportRequest import;
    import.script_name = file.filename().string();
    import.script = golden::content_of(file);
    import.load.file = "exp.yaml";
    import.load.current_dir = "/home/user/exp";
    import.load.env.set("HOME", "/home/user");
    const auto made = import_script(import);
    REQUIRE_MESSAGE(made.has_value(), (made ? "" : made.error().message));
    const fs::path stem = golden::folder() / "imported" / file.stem();
    golden::check(stem.string() + ".yaml", made->spec);
    golden::check(stem.string() + ".txt",
                  format_diagnostics(made->remarks) + format_diagnostics(made->warnings));
  }
}

}  // namespace
}  // namespace dlrun
