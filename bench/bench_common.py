"""Functions that the benchmarks share: the description of the machine, and the spread of values."""

import os
import platform
import re
import statistics


def machine():
    """Returns a text: the processors, their vector extensions, the kernel and the load."""
    model = "unknown processor"
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        text = info.read()
    for line in text.splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    isa = [word for word in ("avx2", "avx512f", "avx512_bf16", "amx_tile")
           if re.search(rf"\b{word}\b", text)]
    return (f"{os.cpu_count()} x {model} ({', '.join(isa)}), Linux "
            f"{platform.release().split('-')[0]}, load {os.getloadavg()[0]:.1f} at the start")


def spread(values):
    """Returns half the distance between the quartiles, divided by the median. Uses half the range
    if there are fewer than four values."""
    if len(values) < 4:
        return (max(values) - min(values)) / 2 / statistics.median(values)
    quartiles = statistics.quantiles(values, n=4)
    return (quartiles[2] - quartiles[0]) / 2 / statistics.median(values)
