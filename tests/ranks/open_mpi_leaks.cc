// Linked into programs that run MPI in a build with the address sanitizer: what Open MPI, its
// plug-ins and the libraries under them leave at MPI_Finalize is not reported. Everything of ours
// still is: a leak in a call of ours to MPI excepted, whose memory then is MPI's.

/// Open MPI unloads its plug-ins at MPI_Finalize; the leak sanitizer could then not say whose code
/// a leak came from, and nothing below would match. Nothing is unloaded here.
extern "C" int dlclose(void* /*handle*/) {
  return 0;
}

/// These libraries have no frame pointers: unwind by their unwind tables. The thread-local storage
/// of loaded modules is left out: of about forty checks one crashed in the sanitizer's walk through
/// it.
extern "C" const char* __asan_default_options() {
  return "fast_unwind_on_malloc=0:intercept_tls_get_addr=0";
}

extern "C" const char* __lsan_default_suppressions() {
  return "leak:libmpi.so\n"
         "leak:libopen-rte.so\n"
         "leak:libopen-pal.so\n"
         "leak:libpmix.so\n"
         "leak:libevent\n"
         "leak:libhwloc.so\n"
         "leak:mca_\n";
}
