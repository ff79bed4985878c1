#include <doctest/doctest.h>

#include "cli/script_file.h"
#include "cli/submit_job.h"

using namespace dlrun;

TEST_CASE("a script's #SBATCH values are read as sbatch reads them") {
  const char* text =
      "#!/bin/bash\n#SBATCH --job-name=mnist # name\n#SBATCH -o \"out \\\"x\\\"_%j.txt\" --time=1\n##SBATCH "
      "--output=commented\n"
      "# a remark\n\necho hello\n#SBATCH --output=too-late\n";
  CHECK(sbatch_value(text, "--job-name", "-J") == "mnist");
  CHECK(sbatch_value(text, "--output", "-o") == "out \"x\"_%j.txt");
  CHECK_FALSE(sbatch_value(text, "--partition", "-p").has_value());
  CHECK(sbatch_value("#!/bin/sh\n#SBATCH -pgpu\n", "--partition", "-p") == "gpu");
  CHECK(sbatch_value("#!/bin/sh\n#SBATCH -p a\n#SBATCH -p b\n", "--partition", "-p") == "b");
  // Abbreviated, as sbatch takes it; what is an option's whole name means that option.
  CHECK(sbatch_value("#!/bin/sh\n#SBATCH --arr=1-3\n", "--array", "-a") == "1-3");
  CHECK(sbatch_value("#!/bin/sh\n#SBATCH --part gpu\n", "--partition", "-p") == "gpu");
  CHECK(sbatch_value("#!/bin/sh\n#SBATCH --ntasks-per=2\n", "--ntasks-per-node", "") == "2");
  CHECK_FALSE(sbatch_value("#!/bin/sh\n#SBATCH --ntasks=2 --gpus=4\n", "--ntasks-per-node", ""));
  CHECK_FALSE(sbatch_value("#!/bin/sh\n#SBATCH --gpus=4\n", "--gpus-per-task", ""));
  CHECK_FALSE(sbatch_value("#!/bin/sh\n#SBATCH --time-min=4\n", "--time", "-t"));
  CHECK(sbatch_option(text, "--output", "-o")->line == 3);
  CHECK(sbatch_option("#!/bin/sh\n#SBATCH -p a\n# x\n#SBATCH -p b\n", "--partition", "-p")->line == 4);
}

TEST_CASE(
    "a rendered script gives back its name and its runs directory, and its own output pattern is not the user's") {
  const auto script = read_script(
      "#!/bin/bash\n#SBATCH --job-name=mnist\n#SBATCH --output=/r/mnist-%j.out\nexec \"$dlrun_agent\" lead --runs /r "
      "--name "
      "mnist -- x\n",
      "job.sh");
  CHECK(script.name == "mnist");
  CHECK(script.runs_dir == "/r");
  CHECK_FALSE(script.output.has_value());
}

TEST_CASE("a script without a job name is named after its file, as a slug") {
  CHECK(read_script("#!/bin/sh\n", "my job.sh").name == "my-job");
  CHECK(read_script("#!/bin/sh\n", "-.sh").name == "job");
  CHECK(read_script("#!/bin/sh\n#SBATCH -o x.out\n", "a.sh").output == "x.out");
}

TEST_CASE("a spec is no script") {
  CHECK(is_script("#!/bin/sh\n"));
  CHECK_FALSE(is_script("name: x\n"));
  CHECK_FALSE(is_script("# a comment\n"));
}

TEST_CASE("the image on a script's record is its spec's while the script names it, as written or as pyxis gets it") {
  Job job;
  CHECK(image_of(job).empty());
  job.is_script = true;
  job.prepared.emplace();
  job.prepared->loaded.spec.container.image = "docker://nvcr.io/team/a:1";
  job.script = "#!/bin/bash\nsrun '--container-image=nvcr.io#team/a:1' x\n#| image: docker://nvcr.io/team/a:1\n";
  CHECK(image_of(job) == "docker://nvcr.io/team/a:1");
  job.script = "#!/bin/bash\nsrun '--container-image=nvcr.io#team/b:1' x\n#| image: docker://nvcr.io/team/a:1\n";
  CHECK(image_of(job).empty());
  job.is_script = false;
  CHECK(image_of(job) == "docker://nvcr.io/team/a:1");
}
