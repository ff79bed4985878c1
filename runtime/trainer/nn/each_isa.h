#pragma once
// Compiles one copy of a loop per instruction set; the best is chosen when the program starts.
// Sanitizers cannot run the function that chooses.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define DLRUN_EACH_ISA __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define DLRUN_EACH_ISA
#endif
