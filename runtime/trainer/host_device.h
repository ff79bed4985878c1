#pragma once
// A function that both the CPU's and the GPU's compiler take.

#ifdef __CUDACC__
#define DLRUN_HOST_DEVICE __host__ __device__
#else
#define DLRUN_HOST_DEVICE
#endif
