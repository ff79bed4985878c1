"""Takes the place of a reader's training program when the pages are tested. Rank 0, which alone has
DLRUN_PROGRESS, reports three steps, as docs/restarts.md explains."""

import json
import os
import time

print(f"rank {os.environ['DLRUN_RANK']} of {os.environ['DLRUN_WORLD_SIZE']}", flush=True)
for step in range(1, 4):
    if "DLRUN_PROGRESS" in os.environ:
        with open(os.environ["DLRUN_PROGRESS"], "w", encoding="utf-8") as file:
            json.dump({"step": step, "steps": 3, "loss": 1 / step, "final": step == 3}, file)
    time.sleep(0.1)
