#include "launcher/executors/curl_library.h"

#include <type_traits>

#include <dlfcn.h>

namespace dlrun {

Result<CurlLibrary> CurlLibrary::load(std::string_view message_start,
                                      std::string_view message_end) {
  void* library = nullptr;
  for (const char* name : {"libcurl.so.4", "libcurl-gnutls.so.4"}) {
    library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) break;
  }
  if (library == nullptr) {
    return fail(Errc::kNotFound,
                "{} libcurl, which is not installed here (Debian: libcurl4, Red Hat: libcurl); {}",
                message_start, message_end);
  }
  CurlLibrary curl;
  const auto get = [&](const char* name, auto& function) {
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    return function != nullptr;
  };
  const bool has_all =
      get("curl_global_init", curl.global_init) && get("curl_easy_init", curl.easy_init) &&
      get("curl_easy_cleanup", curl.easy_cleanup) && get("curl_easy_setopt", curl.easy_setopt) &&
      get("curl_easy_getinfo", curl.easy_getinfo) && get("curl_easy_perform", curl.easy_perform) &&
      get("curl_easy_strerror", curl.easy_strerror) &&
      get("curl_slist_append", curl.slist_append) &&
      get("curl_slist_free_all", curl.slist_free_all);
  if (!has_all || curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
    return fail(Errc::kInternal, "libcurl could not be set up");
  return curl;
}

}  // namespace dlrun
