#include <doctest/doctest.h>

#include "container/image_name.h"

namespace dlrun {
namespace {

TEST_CASE("an image's name in enroot's or docker's form is converted to enroot's form") {
  const auto uri = [](std::string_view image) { return enroot_uri(image).value_or("refused"); };
  CHECK(uri("ubuntu") == "docker://ubuntu");
  CHECK(uri("nvcr.io#nvidia/pytorch:24.05-py3") == "docker://nvcr.io#nvidia/pytorch:24.05-py3");
  CHECK(uri("docker://nvcr.io/nvidia/pytorch:24.05-py3") ==
        "docker://nvcr.io#nvidia/pytorch:24.05-py3");
  CHECK(uri("localhost:5000/a/b") == "docker://localhost:5000#a/b");
  CHECK(uri("library/ubuntu:22.04") == "docker://library/ubuntu:22.04");
  CHECK(uri("$oauthtoken@nvcr.io#nvidia/cuda") == "docker://$oauthtoken@nvcr.io#nvidia/cuda");
}

TEST_CASE("paths, file names, URLs and invalid names of images have no enroot form") {
  for (const char* image : {"",
                            "/a.sqsh",
                            "./a",
                            "a/b.sqsh",
                            "a.sif",
                            "docker://",
                            "http://x/y",
                            "a b",
                            "-x",
                            "a\nb",
                            "a;b",
                            "nvcr.io#",
                            "nvcr.io/",
                            "#a",
                            "a#b#c",
                            "docker-archive:/x.tar",
                            "host:port/a",
                            "a/b:",
                            "a/",
                            "oras://a/b"}) {
    CAPTURE(image);
    CHECK_FALSE(enroot_uri(image).has_value());
  }
}

TEST_CASE(
    "for apptainer the name of an image is converted to docker's form, and paths, other URLs and "
    "invalid names stay unchanged") {
  CHECK(apptainer_image_name("ubuntu") == "docker://ubuntu");
  CHECK(apptainer_image_name("nvcr.io#nvidia/cuda:12") == "docker://nvcr.io/nvidia/cuda:12");
  CHECK(apptainer_image_name("docker://nvcr.io/nvidia/cuda:12") ==
        "docker://nvcr.io/nvidia/cuda:12");
  for (const char* image : {"./a.sif", "/a", "a.sif", "oras://ghcr.io/a/b", "a b"})
    CHECK(apptainer_image_name(image) == image);
}

TEST_CASE("only an image that starts with /, ./, ../ or ~/ counts as a path") {
  for (const char* image : {"/a", "./a", "../a", "~/a"}) CHECK(is_image_path(image));
  for (const char* image : {"a/b.sqsh", "a", "docker://a"}) CHECK_FALSE(is_image_path(image));
}

}  // namespace
}  // namespace dlrun
