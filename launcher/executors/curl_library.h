#pragma once
// libcurl, loaded when it is asked for: dlrun starts without its forty libraries, and runs where it
// is missing.

#include <string_view>

#include <curl/curl.h>

#include "common/result.h"

namespace dlrun {

/// The functions of libcurl that are used, by its own types. Loaded once and kept: the library is
/// not unloaded.
struct CurlLibrary {
  decltype(&curl_global_init) global_init = nullptr;
  decltype(&::curl_easy_init) easy_init = nullptr;
  decltype(&::curl_easy_cleanup) easy_cleanup = nullptr;
  CURLcode (*easy_setopt)(CURL*, CURLoption, ...) = nullptr;
  CURLcode (*easy_getinfo)(CURL*, CURLINFO, ...) = nullptr;
  decltype(&::curl_easy_perform) easy_perform = nullptr;
  decltype(&::curl_easy_strerror) easy_strerror = nullptr;
  decltype(&::curl_slist_append) slist_append = nullptr;
  decltype(&::curl_slist_free_all) slist_free_all = nullptr;

  /// what: who needs it, up to its name: "slurmrestd is asked through". instead: how it goes
  /// without. kNotFound where it is not installed.
  [[nodiscard]] static Result<CurlLibrary> load(std::string_view what, std::string_view instead);
};

}  // namespace dlrun
