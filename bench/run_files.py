"""Writes run directories and an index of runs, for benchmarks of commands that read them."""

import json
import os
import zlib


def event_line(second, event, **fields):
    """Returns a line of events.jsonl, with its checksum. second: seconds since 2026-11-01."""
    day, rest = divmod(second, 86400)
    moment = f"2026-11-{1 + day % 28:02}T{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}.000Z"
    body = json.dumps({"t": moment, "event": event, "attempt": 0, **fields},
                      separators=(",", ":"))[:-1]
    return f'{body},"crc":"{zlib.crc32(body.encode()):08x}"}}\n'


def write_run(folder, job, events, is_local=False):
    """Writes a run into `folder`, which must not exist. job: the id of the run's job. events: the
    lines of events.jsonl. is_local: the job is a process of this machine; otherwise the job was
    submitted to Slurm."""
    os.makedirs(folder)
    if not is_local:
        with open(f"{folder}/submission.json", "w", encoding="ascii") as file:
            json.dump({"token": "0" * 32, "state": "submitted", "cluster": "", "job": job,
                       "argv": []}, file)
    with open(f"{folder}/claim", "w", encoding="ascii") as file:
        json.dump({"cluster": "local" if is_local else "c", "job": job, "token": "0" * 32}, file)
    with open(f"{folder}/events.jsonl", "w", encoding="ascii") as file:
        file.writelines(events)


def write_index_entry(index, run_id, folder, created):
    """Writes the entry of a run into the index. The run's name is the start of its id. created: a
    time in ISO 8601."""
    os.makedirs(index, exist_ok=True)
    with open(f"{index}/{run_id}", "w", encoding="ascii") as file:
        json.dump({"id": run_id, "name": run_id.split("-")[0], "path": folder, "created": created},
                  file)


def write_finished_runs(work, count):
    """Writes `count` finished runs into WORK/runs and their entries into WORK/state. Returns the
    ids of the runs, the newest run last."""
    events = [event_line(0, "claimed", job="42", host="n1"),
              event_line(0, "joined", ranks=8, hosts="n[1-2]"),
              event_line(86000, "result", test_accuracy=0.99),
              event_line(86001, "ended", state="completed", code=0, message="done")]
    ids = []
    for i in range(count):
        clock = f"{i // 3600 % 24:02}:{i // 60 % 60:02}:{i % 60:02}"
        ids.append(f"mnist-20261121-{clock.replace(':', '')}-{i:04x}")
        write_run(f"{work}/runs/{ids[-1]}", str(100_000 + i), events)
        write_index_entry(f"{work}/state/dlrun/runs", ids[-1], f"{work}/runs/{ids[-1]}",
                          f"2026-11-21T{clock}.000Z")
    return ids
