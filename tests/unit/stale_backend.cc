// A backend module of another build; backends_test.cc checks that dlrun refuses it.

#include "runtime/comm/module.h"

extern "C" __attribute__((visibility("default"))) const dlrun::CommBackend dlrun_comm_backend;
const dlrun::CommBackend dlrun_comm_backend{"0.0.0-another", nullptr};
