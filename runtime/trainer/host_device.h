#pragma once
// Marks a function that is compiled for both the CPU and the GPU.

#ifdef __CUDACC__
#define DLRUN_HOST_DEVICE __host__ __device__
#else
#define DLRUN_HOST_DEVICE
#endif
