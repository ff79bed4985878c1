#pragma once
// A part of the key table (launcher/spec/spec_keys.h): download, stage and outputs.

#include "launcher/spec/keys/key_row_parts.h"

namespace dlrun::keys {

// clang-format off
inline constexpr KeyRow kDataKeys[] = {
  {.path = "download.path", FIELD(download.path), .format = Format::kPath,
   .help = "dlrun fetches the files of download.files into this folder. The job finds the folder "
           "in $DLRUN_DOWNLOADS.",
   .example = "./data"},
  {.path = "download.files", FIELD(download.files),
   .help = "dlrun fetches these files over https or http into download.path before the job is "
           "queued. This key works for every program, not only for the bundled trainer. `sha256` "
           "is the checksum that the file must have (`sha256sum FILE` prints it). `file` is the "
           "name of the file; the default is the last part of the url. `bytes` is the size, if you "
           "know it. dlrun never overwrites a file. The run's record contains url and checksum, so "
           "a url must not contain a password.",
   .example = "[{url: \"https://example.org/mnist/t10k-labels-idx1-ubyte.gz\", sha256: "
              "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6}]"},
  {.path = "stage", FIELD(stage),
   .help = "On each node, the agent of the lowest rank copies this data to the node before any "
           "program starts. `from` is a file or a folder. `to` is the path on the node: a "
           "variable of the node and a path, such as $TMPDIR/data. With `unpack: true`, `from` is "
           "a tar archive, and `to` is the folder of its contents. A later attempt on the node "
           "copies the data again only if the source or the copy has changed (size and time). In "
           "a job of eight nodes or more, sbcast copies large files.",
   .example = "[{from: ./imagenet.tar, to: $TMPDIR/data, unpack: true}]"},
  {.path = "outputs", FIELD(outputs),
   .help = "On each node, the agent of the lowest rank copies the files of the folder `from` to "
           "the folder `to`: once per interval `every` (if it is given), and at the end of each "
           "attempt, even if the ranks were killed. `from` begins with a variable of the node, "
           "such as $TMPDIR/ckpt. `to` is an absolute path, or one below the run's directory. If "
           "the job has several nodes, `to` has a folder node-N for each of them. An incomplete "
           "file never replaces a complete file, and an older file never replaces a newer file. "
           "`limit` bounds the time of one copy; the default is 10m.",
   .example = "[{from: $TMPDIR/ckpt, to: out, every: 10m}]"},
};
// clang-format on

}  // namespace dlrun::keys
