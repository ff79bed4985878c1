// Linked into MPI programs built with the address sanitizer. Suppresses reports about memory that
// Open MPI, its plug-ins and their libraries do not free at MPI_Finalize. Leaks of memory
// that our own code allocates are still reported. Leaks of memory that MPI allocates when we call
// it are not, even if the leak is our fault.

/// Unloads nothing. Open MPI unloads its plug-ins at MPI_Finalize; the leak sanitizer could then
/// not name the code of a leak, and no suppression below would match.
extern "C" int dlclose(void* /*handle*/) {
  return 0;
}

/// Returns the sanitizer's options. The libraries of Open MPI have no frame pointers, so the
/// sanitizer unwinds stacks with unwind tables. It does not scan the thread-local storage of loaded
/// modules, because it crashed during this scan in one of about forty runs.
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
