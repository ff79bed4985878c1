"""The table of all kinds of faults."""

import on_daemons_and_nodes
import on_network
import on_processes
import on_slurm
import on_storage
import system_call_faults

KINDS = (
    *on_processes.KINDS,
    *on_daemons_and_nodes.KINDS,
    *on_slurm.KINDS,
    *on_storage.KINDS,
    *system_call_faults.KINDS,
    *on_network.KINDS,
)
