#include <doctest/doctest.h>

#include "launcher/submit/sbatch_settings.h"
#include "tests/temporary_directory.h"

namespace dlrun {

TEST_CASE("submit.json keeps the settings that all jobs of a sweep or a chain share") {
  const TemporaryDirectory run;
  SbatchSettings written;
  written.submit_directory = "/home/ada";
  written.clusters = "gpu";
  written.dependency = "afterok:12";
  written.is_cancelled_on_invalid_dependency = true;
  written.exclude = "n[1-2]";
  written.job_name = "sweep";
  REQUIRE(write_sbatch_settings(run.path(), written).has_value());
  const auto read = read_sbatch_settings(run.path());
  REQUIRE(read.has_value());
  CHECK(read->submit_directory == written.submit_directory);
  CHECK(read->clusters == written.clusters);
  CHECK(read->dependency == written.dependency);
  CHECK(read->is_cancelled_on_invalid_dependency);
  CHECK(read->exclude == written.exclude);
  CHECK(read->job_name == written.job_name);
  CHECK_FALSE(read->chdir.has_value());

  written.is_cancelled_on_invalid_dependency = false;
  REQUIRE(write_sbatch_settings(run.path(), written).has_value());
  CHECK_FALSE(read_sbatch_settings(run.path())->is_cancelled_on_invalid_dependency);
}

}  // namespace dlrun
