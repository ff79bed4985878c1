#pragma once
// Compiles one copy of a loop per instruction set. At program start a resolver function chooses the
// best copy. The resolver cannot run under the sanitizers.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define DLRUN_EACH_ISA __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define DLRUN_EACH_ISA
#endif
