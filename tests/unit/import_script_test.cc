// Tests the specs that are made from job scripts. tests/golden/import_test.cc compares whole specs.

#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "launcher/import/script_import.h"
#include "launcher/spec/load.h"
#include "launcher/spec/spec_keys.h"
#include "tests/contains.h"

namespace dlrun {
namespace {

constexpr const char* kHead = "#!/bin/bash\n#SBATCH --time=10\n";

ImportRequest request_of(const std::string& script) {
  ImportRequest import;
  import.script_name = "job.sh";
  import.script = script;
  import.load.file = "exp.yaml";
  import.load.current_dir = "/exp";
  import.load.env.set("HOME", "/home/u");
  return import;
}

/// Returns the spec and the remarks as one text; the message and the diagnostics if the import
/// fails.
std::string spec_and_remarks(const std::string& script) {
  const auto made = import_script(request_of(script));
  if (!made) return made.error().message + format_diagnostics(made.error().diagnostics.all());
  return made->spec + "\n" + format_diagnostics(made->remarks);
}

/// Returns the loaded spec that is made from a script. Fails the test if the import or the load
/// fails.
JobSpec spec_from(const std::string& script) {
  const auto made = import_script(request_of(script));
  if (!made) FAIL(made.error().message << format_diagnostics(made.error().diagnostics.all()));
  LoadRequest request = request_of(script).load;
  request.text = made->spec;
  auto loaded = load_spec(request);
  if (!loaded) FAIL(format_diagnostics(loaded.error()) << made->spec);
  return std::move(loaded->spec);
}

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

TEST_CASE("the value of a secret variable of a job script is in no text that an import makes") {
  const std::string text =
      spec_and_remarks(std::string(kHead) +
                       "export WANDB_API_KEY=s3cret\nHF_TOKEN='s3cret' python prep.py\n"
                       "if true; then export HF_TOKEN=\"s3cret\"; fi\nsrun ./x\n");
  CHECK(has(text, "secrets: [WANDB_API_KEY]"));
  CHECK_FALSE(has(text, "s3cret"));
  // launch.command keeps a variable that passes a secret to the program.
  const std::string used =
      std::string(kHead) + "HF_TOKEN=s3cret\nexport HF_TOKEN\nsrun ./x --token $HF_TOKEN\n";
  CHECK_FALSE(has(spec_and_remarks(used), "s3cret"));
  CHECK(spec_from(used).launch.command ==
        std::vector<std::string>{"bash", "-c", "exec ./x --token ${HF_TOKEN}"});
  CHECK(has(spec_and_remarks(used), "secrets: [HF_TOKEN]"));
}

TEST_CASE(
    "a secret that is a word of a command gives a remark with the command's line, and the remark "
    "masks the secret") {
  const std::string text =
      spec_and_remarks(std::string(kHead) +
                       "wandb login 0123456789abcdef0123456789abcdef01234567\n"
                       "huggingface-cli login --token hf_abcdefghijklmnopqrstuvwxyz\n"
                       "if true; then prepare --api-key='s3cret-word'; fi\n"
                       "git clone https://h/r && tool hf_abcdefghijklmnopqrstuvwxyz\nsrun ./x\n");
  CHECK(has(text, "job.sh:3:1: warning: wandb login ...: "));
  CHECK(has(text, "job.sh:4:1: warning: huggingface-cli login --token ...: "));
  CHECK(has(text, "job.sh:5:1: warning: "));
  CHECK(has(text,
            "move the word to a variable of your shell, name the variable in "
            "environment.secrets"));
  for (const char* secret : {"0123456789abcdef", "hf_abc", "s3cret-word"})
    CHECK_FALSE(has(text, secret));
}

TEST_CASE("a variable with a secret in its value becomes a name in environment.secrets") {
  const std::string token = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";
  for (const std::string& line :
       {std::string("export X=postgres://user:SEKRIT-6@host/db"),
        std::string("export X='postgres://user:SEKRIT;6&7@host/db'"),
        std::string("export X=postgres://user:'SEKRIT-6'@host/db"),
        std::string("export X=redis://:SEKRIT-6@host"), "export X=" + token, "X=" + token,
        std::string("export X=ordinary X=redis://:SEKRIT-6@host"), "P=" + token + "\nexport X=$P",
        std::string("U=postgres://user\nexport X=$U:SEKRIT-6@host/db")}) {
    CAPTURE(line);
    const std::string script = kHead + line + "\nsrun ./x\n";
    const std::string text = spec_and_remarks(script);
    CHECK_FALSE(has(text, "SEKRIT"));
    CHECK_FALSE(has(text, "ghp_"));
    if (line.find("$P") != std::string::npos) continue;  // only the job knows the value of X
    CHECK(has(text, "secrets: [X]"));
    CHECK(has(
        text,
        "its name or value looks like a secret, so the value is not copied: set X in your shell"));
    CHECK(spec_from(script).environment.vars.empty());
  }
  // The assignment may also stand before the program, on the same line.
  const std::string before =
      std::string(kHead) + "X=redis://:SEKRIT-6@host HF_TOKEN=SEKRIT srun ./x\n";
  CHECK(has(spec_and_remarks(before), "secrets: [X, HF_TOKEN]"));
  CHECK_FALSE(has(spec_and_remarks(before), "SEKRIT"));
  // launch.command keeps a variable that is an argument of the program.
  const std::string used = std::string(kHead) + "X=redis://:SEKRIT-6@host\nsrun ./x --url $X\n";
  CHECK(spec_from(used).launch.command ==
        std::vector<std::string>{"bash", "-c", "exec ./x --url ${X}"});
}

TEST_CASE(
    "if the name of a variable or an option is that of a secret, an import's remark masks the "
    "whole "
    "value") {
  for (const char* line : {"export MY_PASS=$(echo SEKRIT-7)", "export MY_PASS=`echo SEKRIT-7`",
                           "export MY_PASS=a,SEKRIT", "export MY_PASS=\"$(echo 'a) SEKRIT')\"",
                           "export \"MY_PASS=a SEKRIT\"", "export \"MY_PASS=a\\\"b SEKRIT\"",
                           "export MY_PASS=${MY_PASS:-a SEKRIT}", "export MY_PASS+=SEKRIT",
                           "export MY_PASS=a\\ SEKRIT", "export PGPASSWORD=a'b SEKRIT'",
                           "declare -x MY_PASS='a SEKRIT'", "sh -c 'MY_PASS=\"a SEKRIT\" prepare'",
                           "login --token $(echo SEKRIT)", "login --token \"${T:-SEKRIT}\""}) {
    CAPTURE(line);
    const std::string text = spec_and_remarks(std::string(kHead) + line + "\nsrun ./x\n");
    CHECK_FALSE(has(text, "SEKRIT"));
    CHECK(has(text, "job.sh:3:1: warning: "));
    CHECK(has(text, "..."));
  }
}

TEST_CASE("a secret in an option of sbatch or srun gives a remark and is not in the spec") {
  for (const char* option :
       {"--bogus=ghp_abcdefghijklmnopqrstuvwxyz0123456789", "--bogus-token=SEKRIT-8",
        "--bogus=\"see https://user:SEKRIT-8@host\"", "--bogus=HF_TOKEN=SEKRIT-8"}) {
    CAPTURE(option);
    const std::string text =
        spec_and_remarks(std::string(kHead) + "#SBATCH " + option + "\nsrun ./x\n");
    CHECK(has(text, "job.sh:3:1: warning: #SBATCH --"));
    CHECK(has(text, "its name or value looks like a secret, so the value is not copied"));
    CHECK_FALSE(has(text, "SEKRIT"));
    CHECK_FALSE(has(text, "ghp_"));
  }
  for (const char* line :
       {"srun --network=HF_TOKEN=SEKRIT-8 ./x", "srun --export=ALL,HF_TOKEN=SEKRIT-8 ./x",
        "export ARGS='--token SEKRIT-8'\nsrun ./x", "srun ./x --token $(echo SEKRIT-8)"}) {
    CAPTURE(line);
    const std::string text = spec_and_remarks(std::string(kHead) + line + "\n");
    CHECK_FALSE(has(text, "SEKRIT"));
    CHECK(has(text, "..."));
  }
}

TEST_CASE("an argument that gets a secret from a variable of the script gives a remark") {
  const std::string text =
      spec_and_remarks(std::string(kHead) + "A='--token abcdef123'\nsrun ./x $A\n");
  CHECK(
      has(text, "job.sh:4:1: warning: srun ./x $A: launch.command has this line with the values"));
}

TEST_CASE(
    "ordinary values of variables and options are copied into the spec unchanged, without a "
    "warning") {
  const std::string digest(64, 'a');
  for (const std::string& value :
       {std::string("/data/hf_finetune_llama_7b/config.yaml"),
        std::string("sk-internationalization-of-2024.csv"), std::string("model-v1.2-final.pt"),
        "nvcr.io/nvidia/pytorch@sha256:" + digest, "docker://image:tag@sha256:" + digest,
        std::string("https://h.org:8443/a@b:c"), std::string("https://user@h.org/x"),
        std::string("tcp://10.0.0.1:29500"), std::string("1"), std::string("--sort-key=alphabet"),
        std::string("max_split_size_mb:512,expandable_segments:True")}) {
    CAPTURE(value);
    const JobSpec spec = spec_from(std::string(kHead) + "#SBATCH --bogus=" + value +
                                   "\nexport PASS_THROUGH=" + value + "\nsrun ./x\n");
    CHECK(spec.environment.vars == NamedValues{{"PASS_THROUGH", value}});
    const std::string text = spec_and_remarks(std::string(kHead) + "#SBATCH --bogus=" + value +
                                              "\nexport PASS_THROUGH=" + value + "\nsrun ./x\n");
    CHECK(has(text, "bogus: "));
    CHECK_FALSE(has(text, "warning"));
  }
  // $PW is a variable, not a password.
  const std::string text =
      spec_and_remarks(std::string(kHead) + "export X=postgres://user:$PW@host/db\nsrun ./x\n");
  CHECK(has(text, "export X=postgres://user:$PW@host/db: only the job knows the value"));
}

TEST_CASE(
    "values whose names only resemble secrets are copied, and values that the log hides count as "
    "secrets") {
  const std::string script =
      std::string(kHead) +
      "#SBATCH --wckey=project-name\nexport NCCL_IB_PKEY=0x8001\n"
      "export HF_TOKEN_PATH=/data/token\nsrun ./x --image-key pixel_values\n";
  const JobSpec spec = spec_from(script);
  CHECK(spec.environment.vars ==
        NamedValues{{"NCCL_IB_PKEY", "0x8001"}, {"HF_TOKEN_PATH", "/data/token"}});
  REQUIRE(spec.slurm.size() == 1);
  CHECK(spec.slurm[0].name == "wckey");
  CHECK_FALSE(has(spec_and_remarks(script), "warning"));
  // If the log hides the values of a name, an import treats the name as a secret, too.
  for (const char* line : {"export HUB_JWT=SEKRIT-9", "export SSHKEY=SEKRIT-9",
                           "./prepare --auth SEKRIT-9 --access-creds=SEKRIT-9"}) {
    CAPTURE(line);
    CHECK(has(spec_and_remarks(std::string(kHead) + line + "\nsrun ./x\n"), "looks like a secret"));
  }
}

TEST_CASE("a secret among the arguments of the program gives a remark with its line") {
  for (const char* argument : {"--hub-token abcdef123", "--hub_token=abcdef123",
                               "--wandb-api-key \"abcdef123\"", "hf_abcdefghijklmnopqrstuvwxyz"}) {
    CAPTURE(argument);
    const std::string text = spec_and_remarks(std::string(kHead) + "srun ./x " + argument + "\n");
    CHECK(has(text, "job.sh:3:1: warning: srun ./x "));
    CHECK(
        has(text, "launch.command has this line as it is; a word of the line looks like a secret"));
  }
}

TEST_CASE(
    "an import's remark masks a secret inside a word, and shows the other characters of the word") {
  // The words of a command, and the text that the remark shows.
  const std::vector<std::pair<std::string, std::string>> cases{
      {"curl -H \"Authorization: Bearer hf_abcdefghijklmnopqrstuvwxyz\" https://h/x",
       "curl -H \"Authorization: Bearer ...\" https://h/x: "},
      {"curl -H 'Authorization: Bearer 0123456789abcdef'", "'Authorization: Bearer ...': "},
      {"curl -H \"PRIVATE-TOKEN: glpat-a1B2_c3D4-e5F6_g7H8\"", "\"PRIVATE-TOKEN: ...\": "},
      {"sh -c \"prepare --token abcdef123\"", "sh -c \"prepare --token ...\": "},
      {"sh -c 'prepare --api-key=abcdef123'", "sh -c 'prepare --api-key=...': "},
      {"wandb login --relogin 0123456789abcdef", "wandb login --relogin ...: "},
      {"wandb login --host=https://w.org 0123456789abcdef", "login --host=https://w.org ...: "},
      {"wandb login --host https://w.org '0123456789abcdef' >/dev/null",
       "login --host https://w.org '...' >/dev/null: "},
      {"git clone https://user:ghp_abcdefghijklmnopqrstuvwxyz0123456789@github.com/x",
       "git clone https://user:...@github.com/x: "},
      {"git clone https://ghp_abcdefghijklmnopqrstuvwxyz0123456789@github.com/x",
       "git clone https://...@github.com/x: "},
      {"git clone \"https://user:p4ss@h.org:8443/x.git\"",
       "\"https://user:...@h.org:8443/x.git\": "},
      {"migrate --url=postgres://me:s3cret@db/x", "migrate --url=postgres://me:...@db/x: "},
      {"prepare a=hf_abcdefghijklmnopqrstuvwxyz,b=sk-abcdefghijklmnop0123",
       "prepare a=...,b=...: "},
      {"git clone https://user:pa/ss@h.org/x", "git clone https://user:...@h.org/x: "},
      {"git clone 'https://user:a?b#c@d@h.org:8443/x'", "'https://user:...@h.org:8443/x': "},
      {"fetch redis://:pa/ss@h https://h.org:8443/a@b", "redis://:...@h https://h.org:8443/a@b: "},
      {"curl -u me:s3 https://h/x", "curl -u me:... https://h/x: "},
      {"/usr/bin/curl -fsSLu me:s3 https://h/x", "curl -fsSLu me:... https://h/x: "},
      {"curl -ume:s3 https://h/x", "curl -ume:... https://h/x: "},
      {"curl --user 'me:my s3' https://h/x", "curl --user 'me:...' https://h/x: "},
      {"curl --user=me:\"my s3\" https://h/x", "curl --user=me:... https://h/x: "},
      {"curl -x p --proxy-user me:s3 https://h/x", "--proxy-user me:... https://h/x: "},
      {"setenv HF_TOKEN s3cret-word", "setenv HF_TOKEN ...: its name or value looks like a secret"},
      {"setenv X redis://:s3@host", "setenv X ...: its name or value looks like a secret"},
  };
  for (const auto& [command, shown] : cases) {
    CAPTURE(command);
    const std::string text = spec_and_remarks(kHead + command + "\nsrun ./x\n");
    CHECK(has(text, shown));
    CHECK(has(text, "looks like a secret"));
    CHECK_FALSE(has(text, command));
  }
}

TEST_CASE("a secret of csh's setenv becomes a name in environment.secrets") {
  const std::string script =
      "#!/bin/csh\n#SBATCH --time=10\nsetenv HF_TOKEN 'SEKRIT a'\nsetenv MODE fast\n"
      "setenv X postgres://me:SEKRIT/6@host/db\nsrun ./x --token $HF_TOKEN\n";
  const std::string text = spec_and_remarks(script);
  CHECK(has(text, "secrets: [HF_TOKEN, X]"));
  CHECK(has(text, "setenv MODE fast"));
  CHECK_FALSE(has(text, "SEKRIT"));
  CHECK(spec_from(script).launch.command ==
        std::vector<std::string>{"bash", "-c", "exec ./x --token ${HF_TOKEN}"});
}

TEST_CASE("an import's remark masks a quoted password of curl inside a quoted command") {
  for (const char* command :
       {"sh -c \"curl -u \\\"me:my SEKRIT\\\" https://h\"", "sh -c 'curl -u me:SEKRIT https://h'",
        "sh -c \"curl https://h -u 'me:my SEKRIT'\"", "curl -u me:$(echo SEKRIT) https://h"}) {
    CAPTURE(command);
    const std::string text = spec_and_remarks(std::string(kHead) + command + "\nsrun ./x\n");
    CHECK_FALSE(has(text, "SEKRIT"));
    CHECK(has(text, "looks like a secret"));
  }
}

TEST_CASE(
    "a line of the script that became launch.command is not listed as missing, even if it has a "
    "secret") {
  const std::string script = std::string(kHead) + "srun ./x --hub-token abcdef123\n";
  const auto made = import_script(request_of(script));
  REQUIRE(made.has_value());
  CHECK_FALSE(has(made->spec, "# Lines of"));
  CHECK_FALSE(has(made->spec, "launch.command has this line"));
  REQUIRE(made->remarks.size() == 1);
  CHECK(has(made->remarks[0].message, "launch.command has this line as it is"));
  // The spec's list of other lines does not have the line of launch.command.
  const auto two = import_script(request_of(script + "rm -r d\n"));
  REQUIRE(two.has_value());
  CHECK(has(two->spec,
            "# Lines of job.sh that this spec does not have, or has in another form:\n"
            "# dlrun runs nothing after the ranks; a second job with after.ok can run it:\n"
            "#   4: rm -r d\n"));
  CHECK(two->remarks.size() == 2);
}

TEST_CASE(
    "an import's remark about a command that became no key shows its ordinary words unchanged") {
  for (const char* command :
       {"wandb login $KEY >/dev/null 2>/tmp/wandb-errors",
        "wandb login && wandb sync ./wandb-runs",
        "wandb offline --directory /scratch/project",
        "huggingface-cli download org/hf_model_of_x",
        "cp /data/hf_finetune_llama_7b_config.yaml ./sk-learn-models-of-2024/a.txt",
        "ls /w/task-abcdefghijklmnopqrstuvwxyz /w/disk-0123456789abcdefghij",
        "git clone git+ssh://git@github.com/a/b",
        "git clone https://user:$PASSWORD@h.org/x",
        "git clone https://h.org:8443/a@b:c",
        "curl http://h.org?mail=a:b@c.org",
        "pull docker://image:tag@sha256:0123456789abcdef0123456789abcdef",
        "curl -H \"Authorization: Bearer $HF_TOKEN\" https://h.org/file-of-the-model",
        "echo \"the bearer certificate\" 'token: missing'",
        "prepare --log-dir \"/data/my logs\"",
        "curl -u $USER:$PW https://h.org/a:b",
        "curl -u me https://h.org/a:b",
        "curl -u \"me:$(cat pw)\" https://h.org",
        "curl -o me:x https://h.org",
        "docker run --user 1000:1000 image",
        "curl https://localhost:8443/a@b",
        "curl http://[::1]:8443/a@b",
        "curl https://h.org:$PORT/a@b",
        "setenv MODE fast-and-exact"}) {
    CAPTURE(command);
    const std::string text = spec_and_remarks(std::string(kHead) + command + "\nsrun ./x\n");
    CHECK_FALSE(has(text, "looks like a secret"));
    CHECK_FALSE(has(text, "..."));
  }
}

TEST_CASE("arguments whose names only look like those of secrets give no remark") {
  for (const char* argument :
       {"--token-type wordpiece", "--pad-token '<|endoftext|>'", "--max-token 131072",
        "--sort-key alphabet", "--token $HF_TOKEN", "--token --verbose", "--tokenizer gpt2-large",
        "--eos_token [EOSTOKEN]", "--config /c/hf_finetune_llama_7b_config.yaml",
        "--out sk-learn-models-of-the-year", "--init-method tcp://$HOST:29500"}) {
    CAPTURE(argument);
    const std::string text = spec_and_remarks(std::string(kHead) + "srun ./x " + argument + "\n");
    CHECK_FALSE(has(text, "looks like a secret"));
  }
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
