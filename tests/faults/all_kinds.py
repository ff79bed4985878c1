"""The table of all kinds of faults."""

import on_calls
import on_clusters
import on_network
import on_processes
import on_slurm
import on_storage

KINDS = (
    *on_processes.KINDS,
    *on_clusters.KINDS,
    *on_slurm.KINDS,
    *on_storage.KINDS,
    *on_calls.KINDS,
    *on_network.KINDS,
)
