// Tests the specs that are made from job scripts. tests/golden/import_test.cc compares whole specs,
// and tests/unit/import_secrets_test.cc tests scripts with secrets.

#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "launcher/import/script_import.h"
#include "launcher/spec/load.h"
#include "launcher/spec/spec_keys.h"
#include "tests/contains.h"
#include "tests/unit/import_scene.h"

namespace dlrun {
namespace {

TEST_CASE("each form of an sbatch option sets its key, and the last of several values counts") {
  const JobSpec spec = spec_from(
      "#!/bin/bash\n"
      "#SBATCH -J first -N2 -n 8\n"
      "#SBATCH --job-name second --cpus-per-task=4 --mem 64G -t 1-00\n"
      "#SBATCH --exclusive --gres=gpu:a100:4 --part=gpu  # a comment\n"
      "#SBATCH -HA proj --mail-type=END,FAIL --nice --chdir=/w\n"
      "srun ./x\n");
  CHECK(spec.name == "second");
  CHECK(spec.resources.nodes->min == 2);
  CHECK(spec.resources.ntasks == 8);
  CHECK(spec.resources.cpus_per_task == 4);
  CHECK(spec.resources.mem == "64G");
  CHECK(spec.resources.time == "1-00:00:00");
  CHECK(spec.resources.exclusive == "true");
  CHECK(spec.resources.gres == "gpu:a100:4");
  CHECK(spec.resources.partition == "gpu");
  CHECK(spec.resources.account == "proj");
  REQUIRE(spec.slurm.size() == 3);
  CHECK(spec.slurm[0].name == "mail-type");
  CHECK(spec.slurm[0].value == "END,FAIL");
  CHECK(spec.slurm[1].name == "nice");
  CHECK_FALSE(spec.slurm[1].value.has_value());
  CHECK(spec.slurm[2].value == "/w");
}

TEST_CASE("an option that a spec refuses gives a remark with the reason, and is not in the spec") {
  const std::string text =
      spec_and_remarks(std::string(kHead) +
                       "#SBATCH --array=1-9\n#SBATCH --requeue\n#SBATCH --mem=lots\n"
                       "#SBATCH --export=NONE,HF_TOKEN=abc\nsrun ./x\n"
                       "#SBATCH --nodes=2\n");
  CHECK(has(text, "job.sh:3:1: warning: #SBATCH --array=1-9: slurm: 'array' cannot be given: use"));
  CHECK(has(text, "job.sh:4:1: warning: #SBATCH --requeue: "));
  CHECK(has(text, "job.sh:5:1: warning: #SBATCH --mem=lots: resources.mem: "));
  CHECK(has(text, "HF_TOKEN=..."));
  CHECK(has(text, "job.sh:8:1: warning: #SBATCH --nodes=2: sbatch ignores it, because it follows"));
  CHECK_FALSE(has(text, "abc"));
  CHECK_FALSE(has(text, "\n  nodes:"));
  CHECK_FALSE(has(text, "\n  array:"));
}

TEST_CASE("a script without a number of ranks keeps sbatch's default of one rank on each node") {
  CHECK(
      spec_from(std::string(kHead) + "#SBATCH --gres=gpu:4\nsrun ./x\n").resources.tasks_per_node ==
      1);
  CHECK_FALSE(spec_from(std::string(kHead) + "#SBATCH -n 4\nsrun ./x\n")
                  .resources.tasks_per_node.has_value());
}

TEST_CASE("modules, conda, venv and variables become keys of environment") {
  const JobSpec spec = spec_from(std::string(kHead) +
                                 "#SBATCH -c 6\nmodule purge\nmodule use /m\nmodule load A/1 B\n"
                                 "ml C\nsource ~/e/bin/activate\nexport X='a b' Y=\"$HOME/d\"\n"
                                 "Z=5\nexport Z\nexport N=$SLURM_CPUS_PER_TASK\nexport K=$UNKNOWN\n"
                                 "srun ./x\n");
  const Environment& environment = spec.environment;
  CHECK(environment.modules_purge == true);
  CHECK(environment.modules_use == std::vector<std::string>{"/m"});
  CHECK(environment.modules_load == std::vector<std::string>{"A/1", "B", "C"});
  CHECK(environment.venv == "/home/u/e");
  CHECK(environment.vars == NamedValues{{"X", "a b"}, {"Y", "/home/u/d"}, {"Z", "5"}, {"N", "6"}});
  const JobSpec conda = spec_from(std::string(kHead) +
                                  "eval \"$(conda shell.bash hook)\"\nconda activate my-env\n"
                                  "srun ./x\n");
  CHECK(conda.environment.conda_name == "my-env");
}

TEST_CASE("the options of srun and of pyxis become keys of launch and container") {
  const JobSpec spec = spec_from(
      std::string(kHead) +
      "#SBATCH --ntasks=4\nsrun -n 4 -lu --mpi=pmix --cpu-bind cores -K -K1 --export=ALL "
      "--container-image=./a.sqsh --container-mounts=$PWD/d:/d:ro,/s --container-writable "
      "--no-container-remap-root python t.py --n 4\n");
  CHECK(spec.launch.preset == "plain");
  CHECK(spec.launch.command == std::vector<std::string>{"python", "t.py", "--n", "4"});
  CHECK(spec.launch.mpi == "pmix");
  CHECK(spec.launch.cpu_bind == "cores");
  REQUIRE(spec.launch.srun.size() == 2);
  CHECK(spec.container.runtime == "pyxis");
  CHECK(spec.container.image == "/exp/a.sqsh");
  REQUIRE(spec.container.mounts.size() == 2);
  CHECK(spec.container.mounts[0].source == "/exp/d");
  CHECK(spec.container.writable == true);
  CHECK(spec.container.remap_root == false);
}

TEST_CASE("an option of srun becomes a key of the job only if it requests what the ranks need") {
  std::size_t tested_count = 0;
  for (const KeyRow& row : spec_keys()) {
    if (row.option.target != KeyTarget::kSbatch || row.option.name.empty()) continue;
    CAPTURE(row.path);
    const bool is_collection = row.example.starts_with('{') || row.example.starts_with('[');
    const std::string made =
        spec_and_remarks(fmt::format("{}srun {}='{}' python t.py\n", kHead, row.option.name,
                                     is_collection ? "a100:4" : row.example));
    CHECK_MESSAGE(
        has(made, "it is for this step only") == (row.option.scope != SbatchScope::kRankRequest),
        row.option.name, ": see SbatchScope in spec_keys.h\n", made);
    ++tested_count;
  }
  CHECK(tested_count >= 30);
}

TEST_CASE(
    "torchrun, mpirun, horovodrun and MASTER_ADDR become presets, and the launchers' counts become "
    "keys") {
  const JobSpec torchrun = spec_from(std::string(kHead) +
                                     "python -m torch.distributed.run --standalone "
                                     "--nproc-per-node=4 -m pkg.train --lr 1\n");
  CHECK(torchrun.launch.preset == "torchrun");
  CHECK(torchrun.launch.nproc_per_node == 4);
  CHECK(torchrun.launch.command ==
        std::vector<std::string>{"python3", "-u", "-m", "pkg.train", "--lr", "1"});
  const JobSpec mpi = spec_from(std::string(kHead) + "mpirun --np 8 -x A --mca b c ./x y\n");
  CHECK(mpi.launch.preset == "mpi");
  CHECK(mpi.resources.ntasks == 8);
  CHECK(mpi.launch.command == std::vector<std::string>{"./x", "y"});
  CHECK(spec_from(std::string(kHead) + "horovodrun -np 2 -H localhost:2 python t.py\n")
            .launch.preset == "horovod");
  CHECK(spec_from(std::string(kHead) + "export MASTER_ADDR=$(hostname)\nsrun python t.py\n")
            .launch.preset == "torch");
}

TEST_CASE("an option whose value only the job knows does not take the next word as its value") {
  for (const char* line : {"horovodrun -np 4 --start-timeout=$T python train.py",
                           "mpirun -np 4 -hostfile=$T python train.py",
                           "mpirun -np 4 --start-timeout $T python train.py"}) {
    CAPTURE(line);
    const JobSpec spec = spec_from(std::string(kHead) + "T=$(cmd)\n" + line + "\n");
    CHECK(spec.launch.command == std::vector<std::string>{"python", "train.py"});
  }
}

TEST_CASE("variables of the script are replaced, and those of the job stay for the ranks' shell") {
  CHECK(spec_from(std::string(kHead) + "E=3\nA=\"--lr 0.1\"\nsrun python t.py --epochs $E $A\n")
            .launch.command ==
        std::vector<std::string>{"python", "t.py", "--epochs", "3", "--lr", "0.1"});
  CHECK(spec_from(std::string(kHead) + "srun python t.py --d \"$SCRATCH/a b\" 'c $d'\n")
            .launch.command ==
        std::vector<std::string>{"bash", "-c", "exec python t.py --d \"${SCRATCH}\"'/a b' 'c $d'"});
  // The ranks' shell must not interpret special characters of a value once more.
  CHECK(spec_from(std::string(kHead) + "A=\"-n a;b  'c\"\nsrun ./x $A $SCRATCH\n").launch.command ==
        std::vector<std::string>{"bash", "-c", "exec ./x -n 'a;b' ''\\''c' ${SCRATCH}"});
}

TEST_CASE("a variable made of variables that only the job knows is expanded by the ranks' shell") {
  CHECK(spec_from(std::string(kHead) +
                  "DATA=/scratch/$USER/data\nOUT=out_$SLURM_JOB_ID\nLOG=\"$OUT/a b\"\n"
                  "srun python t.py --data $DATA --out $OUT --log \"$LOG\"\n")
            .launch.command ==
        std::vector<std::string>{"bash", "-c",
                                 "exec python t.py --data /scratch/${USER}/data --out "
                                 "out_${SLURM_JOB_ID} --log out_\"${SLURM_JOB_ID}\"'/a b'"});
  // $OUT is refused if its value would differ between the ranks, or between the assignment and the
  // start, or if the shell would make several words of the value.
  for (const char* lines :
       {"OUT=o_$RANDOM\n", "OUT=o_$HOSTNAME\n", "OUT=o_$A\nA=5\n", "OUT=$OUT/x\n",
        "OUT=o_$A\nif true; then OUT=b; fi\n", "OUT=\"a b $A\"\n"}) {
    CAPTURE(lines);
    CHECK(has(spec_and_remarks(fmt::format("{}{}srun ./x $OUT\n", kHead, lines)),
              "only the job knows what its shell makes of $OUT"));
  }
}

TEST_CASE(
    "an argument that needs a variable of Slurm gives the remark that `dlrun run` does not set "
    "it") {
  const std::string reason =
      "SLURM_JOB_ID is empty under `dlrun run`, where no Slurm sets variables";
  for (const char* lines : {"srun ./x out_$SLURM_JOB_ID\n", "OUT=o_$SLURM_JOB_ID\nsrun ./x $OUT\n"})
    CHECK(has(spec_and_remarks(std::string(kHead) + lines), reason));
  for (const char* lines : {"srun ./x $SCRATCH\n", "#SBATCH -n 2\nsrun ./x $SLURM_NTASKS $A\n",
                            "OUT=o_$SLURM_JOB_ID\nsrun ./x\n"})
    CHECK_FALSE(has(spec_and_remarks(std::string(kHead) + lines), "under `dlrun run`"));
}

TEST_CASE("a remark on a command before the program shows the command with the script's values") {
  const std::string text = spec_and_remarks(
      std::string(kHead) +
      "OUT=out_$SLURM_JOB_ID\nD='a b'\nmkdir -p $OUT/x\nmkdir $D\nmkdir ${OUT}_log\n"
      "rm -f $OUT/*\nmkdir $OTHER\nsrun ./x\n");
  CHECK(
      has(text, "mkdir -p $OUT/x: environment.setup can run `mkdir -p out_$SLURM_JOB_ID/x` once"));
  // The script's values would change the meaning of these lines, or the script does not set OTHER.
  for (const char* line : {"mkdir $D", "mkdir ${OUT}_log", "rm -f $OUT/*", "mkdir $OTHER"})
    CHECK(has(text, fmt::format("{}: environment.setup can run it once", line)));
}

TEST_CASE(
    "a remark on a variable whose value only the job knows says whether launch.command has its "
    "expression") {
  const std::string text =
      spec_and_remarks(std::string(kHead) +
                       "HEAD=$(scontrol show hostnames | head -1)\n"
                       "ROOT=r_$SLURM_JOB_ID\nOUT=$ROOT/out\n"
                       "srun torchrun --rdzv_endpoint=$HEAD:29500 t.py $OUT\n");
  CHECK(has(text, "head -1): only the job knows the value; launch.command does not need it"));
  CHECK(has(text, "ROOT=r_$SLURM_JOB_ID: launch.command contains this expression instead"));
  CHECK(has(text, "OUT=$ROOT/out: launch.command contains this expression instead"));
}

TEST_CASE(
    "a password in a variable is not copied, even if only the job knows the rest of its value") {
  const std::string text = spec_and_remarks(
      std::string(kHead) +
      "URL=https://user:s3cretpw@host/$SLURM_JOB_ID\nsrun python t.py --tracking $URL\n");
  CHECK_FALSE(has(text, "s3cretpw"));
}

TEST_CASE("a refusal because of a variable names the line that sets it") {
  const std::string text = spec_and_remarks(std::string(kHead) +
                                            "DATA=/scratch/$USER\nOUT=$(mktemp -d)\n"
                                            "srun ./x --data $DATA --out $OUT\n");
  CHECK(has(text,
            "job.sh:5: only the job knows what its shell makes of --out $OUT (line 4 sets "
            "OUT); give the program"));
}

/// Imports a script with a program that the user gives after --. Returns the spec and the remarks.
/// Fails the test if the import fails.
std::string imported_with_program(const std::string& script,
                                  std::vector<std::string> program = {"python", "t.py"}) {
  ImportRequest import = request_of(script);
  import.command = std::move(program);
  const auto made = import_script(import);
  REQUIRE(made.has_value());
  return made->spec + "\n" + format_diagnostics(made->remarks);
}

TEST_CASE("a program after -- replaces that of the script, and the launcher's keys are kept") {
  const std::string line =
      "srun --cpu-bind=cores torchrun --nnodes=2 --nproc_per_node=2 a.py $(date)";
  const std::string text = imported_with_program(kHead + line + " | grep loss\nrm -r d\n");
  CHECK(has(text, "preset: torchrun"));
  CHECK(has(text, "nproc_per_node: 2"));
  CHECK(has(text, "nodes: 2"));
  CHECK(has(text, "cores"));
  CHECK(has(text, "command: [python, t.py]\n"));
  CHECK(has(text, "only the keys of the launcher and its options are from this line"));
  CHECK(has(text, "rm -r d: dlrun runs nothing after the ranks"));
  CHECK_FALSE(has(text, "environment.setup"));
  CHECK(
      has(imported_with_program(std::string(kHead) + "mpirun -np 8 ./x $(date)\n"), "preset: mpi"));
}

TEST_CASE("a launch line that a program after -- replaces is not offered for environment.setup") {
  for (const char* script : {"srun ./a\nsrun ./b\n", "srun --brand-new 3 torchrun a.py\n"}) {
    CAPTURE(script);
    const std::string text = imported_with_program(std::string(kHead) + script);
    CHECK(has(text, "preset: plain"));
    CHECK(has(text, "launch.command is the program after `--`"));
    CHECK_FALSE(has(text, "environment.setup"));
  }
  // A program that prepares data is no launch, so the lines after it are read.
  const std::string preparation = imported_with_program(
      std::string(kHead) + "./prepare_data.sh\nmodule load cuda\n$LAUNCH t.py\n");
  CHECK(has(preparation, "load: [cuda]"));
  const std::string with_own_launcher = imported_with_program(
      std::string(kHead) + "srun torchrun --nproc_per_node=2 a.py\n", {"torchrun", "b.py"});
  CHECK(has(with_own_launcher, "that program has a launcher of its own"));
  CHECK(has(with_own_launcher, "preset: plain"));
}

TEST_CASE(
    "a remark says that the line that starts conda is not needed, because the job looks for "
    "conda") {
  for (const char* line :
       {"source ~/miniconda3/etc/profile.d/conda.sh", "eval \"$(conda shell.bash hook)\""}) {
    CAPTURE(line);
    CHECK(has(spec_and_remarks(fmt::format("{}{}\nconda activate e\nsrun ./x\n", kHead, line)),
              fmt::format("{}: not needed: the job looks for conda on the PATH", line)));
  }
}

TEST_CASE("a program whose start is not certain is refused with its line and a remedy") {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"for s in 1 2; do srun ./x $s; done\n", "job.sh:3: the program is started in a condition"},
      {"srun ./a\nsrun ./b\n", "the lines 3, 4 start programs"},
      {"echo hello\n", "no line starts a program"},
      {"srun ./x && echo done\n", "job.sh:3: it is joined with other commands"},
      {"srun ./x <<END\ntext\nEND\n", "or has a parenthesis or a here-document"},
      {"srun ./x < input\n", "its standard input is redirected"},
      {"srun ./x <<<text\n", "its standard input is redirected"},
      {"(srun ./x)\n", "a function or a subshell"},
      {"srun ./x | grep loss\n", "another program reads its output"},
      {"srun ./x | python post.py | tee log\n", "another program reads its output"},
      {"srun ./x | tee log | grep loss\n", "another program reads its output"},
      {"srun --brand-new 3 ./x\n", "does not know srun's option --brand-new"},
      {"srun ./x $SLURM_PROCID\n", "only the job knows what its shell makes of $SLURM_PROCID"},
      {"D=$(mktemp -d)\nsrun ./x $D\n", "only the job knows what its shell makes of $D"},
      {"if true; then D=/a; fi\nsrun ./x $D\n", "only the job knows"},
  };
  for (const auto& [script, reason] : cases) {
    INFO(script);
    const std::string text = spec_and_remarks(kHead + script);
    CHECK(has(text, reason));
    CHECK(has(text, "give the program of the job after --: dlrun init --from job.sh -- "));
    ImportRequest import = request_of(kHead + script);
    import.command = {"python", "t.py"};
    CHECK(import_script(import).has_value());
  }
}

TEST_CASE("a program whose output is only copied to files by tee is imported") {
  for (const char* tail : {"| tee log", "2>&1 | tee -a log", "|tee log", "| tee a | tee b"}) {
    CAPTURE(tail);
    CHECK(spec_from(fmt::format("{}srun ./x {}\n", kHead, tail)).launch.command ==
          std::vector<std::string>{"./x"});
  }
  CHECK(has(spec_and_remarks(std::string(kHead) + "srun ./x 2>&1 | tee log\n"),
            "warning: 2>&1 | tee log: "));
}

TEST_CASE(
    "a text that is no job script, has control characters, is heterogeneous or is dlrun's own is "
    "refused") {
  CHECK(has(spec_and_remarks("name: exp\n"), "is not a job script"));
  CHECK(has(spec_and_remarks(std::string(kHead) + "srun ./x\r\n"),
            "job.sh:3: has the control character"));
  CHECK(has(spec_and_remarks("#!/bin/bash\n#SBATCH -N1\n#SBATCH hetjob\nsrun ./x\n"),
            "heterogeneous"));
  CHECK(has(spec_and_remarks(std::string(kHead) + "exec \"$dlrun_agent\" lead --runs /r\n"),
            "dlrun has made this script from a spec"));
}

TEST_CASE(
    "each line that became no key is listed in the spec and in a remark, and a block only once") {
  const std::string text = spec_and_remarks(std::string(kHead) +
                                            "cd /data\nif [ -d a ]; then\n  cp b c\nfi\nmkdir out\n"
                                            "srun ./x\nrm -r d\n");
  CHECK(has(text, "#   3: cd /data\n"));
  CHECK(has(text, "#   4 to 6: if [ -d a ]\n"));
  CHECK(has(text, "#   7: mkdir out\n"));
  CHECK(has(text, "#   9: rm -r d\n"));
  CHECK(has(text, "job.sh:3:1: warning: cd /data: the job starts in the spec's folder"));
  CHECK(has(text, "job.sh:4:1: warning: if [ -d a ]: it is part of a condition"));
  CHECK(has(text, "job.sh:9:1: warning: rm -r d: dlrun runs nothing after the ranks"));
}

}  // namespace
}  // namespace dlrun
