#pragma once
// DLRUN_EACH_ISA before a function makes the compiler create a copy of the function for each of
// three instruction sets of x86-64. At program start a resolver function chooses the best copy. The
// macro is empty on other processors, and with the address or thread sanitizer, under which the
// resolver cannot run.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define DLRUN_EACH_ISA __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define DLRUN_EACH_ISA
#endif
