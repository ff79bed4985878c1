// Tests that no secret of a job script gets into a spec, a remark or an error.

#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "launcher/import/script_import.h"
#include "launcher/spec/load.h"
#include "tests/contains.h"
#include "tests/unit/import_scene.h"

namespace dlrun {
namespace {

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

}  // namespace
}  // namespace dlrun
