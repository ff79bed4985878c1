"""The table of all kinds of faults."""

import on_clusters
import on_network
import on_processes
import on_slurm
import on_storage
import system_call_faults

KINDS = (
    *on_processes.KINDS,
    *on_clusters.KINDS,
    *on_slurm.KINDS,
    *on_storage.KINDS,
    *system_call_faults.KINDS,
    *on_network.KINDS,
)
