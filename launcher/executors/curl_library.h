#pragma once
// Loads libcurl at run time, when it is first needed. dlrun therefore starts without libcurl's
// forty libraries, and runs on machines without libcurl. The portable dlrun cannot load libraries:
// there, the functions in CurlLibrary call the program curl (curl_library_portable.cc).

#include <string_view>

#include <curl/curl.h>

#include "common/result.h"

namespace dlrun {

/// The functions of libcurl that dlrun uses, with libcurl's own types. The library is never
/// unloaded.
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

  /// Loads libcurl. Fails with kNotFound if libcurl is not installed (the portable dlrun: if the
  /// program curl is not in PATH), and with kInternal if libcurl cannot be set up. message_start:
  /// the message of kNotFound up to libcurl's name ("downloads go through"). message_end: the end
  /// of this message: what the user can do without libcurl.
  [[nodiscard]] static Result<CurlLibrary> load(std::string_view message_start,
                                                std::string_view message_end);
};

}  // namespace dlrun
