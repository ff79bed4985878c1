#!/usr/bin/env python3
"""usage: mlflow_server.py FOLDER PORT-FILE

An HTTP server on loopback that speaks the part of MLflow's REST API 2.0 that dlrun uses. It answers
as MLflow 2.17 does with a database (mlflow.server:app and SQLite): its statuses, error codes and
fields were compared with that server's. It refuses what MLflow refuses, and more: unknown fields,
and values of parameters and tags that are too long for old versions of MLflow.

Writes its port to PORT-FILE when it listens, and ends at the end of its standard input.
PORT-FILE.log has a line "METHOD PATH STATUS" for each request, with the path below
/api/2.0/mlflow/ and without the query. After each request, FOLDER/state.json has all experiments
and runs. Files in FOLDER change the replies:

  token     each request must have this bearer token
  down      each reply has status 503
  slow      each reply takes 2 s
  unnamed   a search finds one run, and the reply lacks the fields of this run, such as its id
  drop      names of requests, such as runs/create, one a line. For each line, the server
            handles one such request, but closes the connection without a reply
"""

import http.server
import json
import math
import os
import posixpath
import re
import sys
import threading
import time
import urllib.parse

FOLDER = sys.argv[1] if len(sys.argv) > 1 else "."
LOCK = threading.Lock()
STATE = {"experiments": {}, "runs": {}}
KEY = re.compile(r"[\w\-./ ]{1,250}\Z")


class Refused(Exception):
    """A reply with an error. code: None if the reply is an HTML page instead of a JSON object."""

    def __init__(self, status, code, message):
        super().__init__(message)
        self.status, self.code = status, code


def check(condition, message):
    if not condition:
        raise Refused(400, "INVALID_PARAMETER_VALUE", message)


def checked_values(body, **types):
    """Returns the values of the fields in order. Refuses other fields, missing fields and wrong
    types."""
    check(isinstance(body, dict), "the body is no object")
    check(set(body) == set(types), f"the fields are {sorted(body)}, not {sorted(types)}")
    for name, wanted in types.items():
        value = body[name]
        check(isinstance(value, wanted) and not isinstance(value, bool),
              f"{name} is {value!r}, which has a wrong type")
    return [body[name] for name in types]


def is_valid_key(text):
    return KEY.match(text) and posixpath.normpath(text) == text and text != "." and not \
        text.startswith(("..", "/"))


def checked_pairs(items, limit):
    check(len(items) <= limit, f"{len(items)} items are more than {limit}")
    found = {}
    for item in items:
        key, value = checked_values(item, key=str, value=str)
        check(is_valid_key(key) and len(value) <= 500,
              f"{key!r} is no valid key, or its value is too long")
        check(key not in found, f"the key {key!r} occurs twice")
        found[key] = value
    return found


def run_of(run_id):
    if run_id not in STATE["runs"]:
        raise Refused(404, "RESOURCE_DOES_NOT_EXIST", f"no run {run_id}")
    return STATE["runs"][run_id]


def experiment_by_name(query):
    name = query.get("experiment_name", [""])[0]
    for experiment_id, known in STATE["experiments"].items():
        if known == name:
            return {"experiment": {"experiment_id": experiment_id, "name": name}}
    raise Refused(404, "RESOURCE_DOES_NOT_EXIST", f"no experiment {name!r}")


def create_experiment(body):
    (name,) = checked_values(body, name=str)
    check(name, "Missing value for required parameter 'name'")
    check(len(name) <= 500, "'name' exceeds the maximum length of 500 characters")
    if name in STATE["experiments"].values():
        raise Refused(400, "RESOURCE_ALREADY_EXISTS", f"the experiment {name!r} exists")
    experiment_id = str(len(STATE["experiments"]) + 1)
    STATE["experiments"][experiment_id] = name
    return {"experiment_id": experiment_id}


def search_runs(body):
    experiment_ids, condition, max_results = checked_values(body, experiment_ids=list, filter=str,
                                                            max_results=int)
    found = re.fullmatch(r"tags\.`([^`]+)` = '([^']*)'", condition)
    check(found and max_results >= 1,
          f"the filter {condition!r} or the max_results {max_results} is not valid")
    if os.path.exists(os.path.join(FOLDER, "unnamed")):
        return {"runs": [{}]}
    tag, value = found.groups()
    runs = [{"info": {"run_id": run_id}} for run_id, run in STATE["runs"].items()
            if run["experiment_id"] in experiment_ids and run["tags"].get(tag) == value]
    return {"runs": runs[:max_results]} if runs else {}


def create_run(body):
    experiment_id, name, start, tags = checked_values(body, experiment_id=str, run_name=str,
                                                      start_time=int, tags=list)
    if experiment_id not in STATE["experiments"]:
        raise Refused(404, "RESOURCE_DOES_NOT_EXIST", f"no experiment {experiment_id}")
    run_id = f"{len(STATE['runs']) + 1:032x}"
    STATE["runs"][run_id] = {"experiment_id": experiment_id, "name": name, "start_time": start,
                             "status": "RUNNING", "end_time": None,
                             "tags": checked_pairs(tags, 100), "params": {}, "metrics": []}
    return {"run": {"info": {"run_id": run_id, "status": "RUNNING"}}}


def add_metrics(run, metrics):
    """Adds the values that the run does not have. Imitates a bug of MLflow: If the run already has
    some of the values, MLflow splits the request into parts of 100 values. For each part, MLflow
    looks up the run's values with the names in this part, but compares all values of the request
    with them. A value whose name is only in other parts thus looks new, and MLflow adds it again.
    The database then refuses the request, because the key, value, timestamp and step of a value are
    the primary key of its table."""
    names = {metric[0] for metric in metrics}
    parts = [metrics[first:first + 100] for first in range(0, len(metrics), 100)]
    if any(metric in run["metrics"] for metric in metrics) and any(
            {metric[0] for metric in part} != names for part in parts):
        raise Refused(400, "BAD_REQUEST", "UNIQUE constraint failed: metrics.key")
    for metric in metrics:
        if metric not in run["metrics"]:
            run["metrics"].append(metric)


def log_batch(body):
    run_id, metrics, params, tags = checked_values(body, run_id=str, metrics=list, params=list,
                                                   tags=list)
    run = run_of(run_id)
    check(len(metrics) <= 1000 and len(metrics) + len(params) + len(tags) <= 1000, "too many items")
    rows = [checked_values(metric, key=str, value=(int, float), timestamp=int, step=int)
            for metric in metrics]
    for key, value, _, _ in rows:
        check(is_valid_key(key) and math.isfinite(value),
              f"{key!r} is no valid key of a metric, or its value is not finite")
    params, tags = checked_pairs(params, 100), checked_pairs(tags, 100)
    for key, value in params.items():
        check(run["params"].get(key, value) == value, f"the parameter {key!r} has a value already")
    add_metrics(run, rows)
    run["params"].update(params)
    run["tags"].update(tags)
    return {}


def update_run(body):
    run_id, status, end = checked_values(body, run_id=str, status=str, end_time=int)
    check(status in ("RUNNING", "FINISHED", "FAILED", "KILLED"), f"there is no status {status!r}")
    run_of(run_id).update({"status": status, "end_time": end})
    return {"run_info": {"run_id": run_id, "status": status}}


POSTS = {"experiments/create": create_experiment, "runs/search": search_runs,
         "runs/create": create_run, "runs/log-batch": log_batch, "runs/update": update_run}


def lines_of(name):
    path = os.path.join(FOLDER, name)
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return file.read().split("\n")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, request, body):
        token = lines_of("token")
        if token and self.headers.get("Authorization") != f"Bearer {token[0]}":
            raise Refused(401, None, "You are not authenticated.")
        if os.path.exists(os.path.join(FOLDER, "down")):
            raise Refused(503, "TEMPORARILY_UNAVAILABLE", "down")
        if os.path.exists(os.path.join(FOLDER, "slow")):
            time.sleep(2)
        address = urllib.parse.urlparse(self.path)
        if self.command == "GET" and request == "experiments/get-by-name":
            return experiment_by_name(urllib.parse.parse_qs(address.query))
        if self.command == "POST" and request in POSTS:
            check(self.headers.get("Content-Type") == "application/json",
                  "the content type is not application/json")
            return POSTS[request](body)
        raise Refused(404, None, "<h1>Not Found</h1>")

    def do_POST(self):
        raw = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        prefix = "/api/2.0/mlflow/"
        path = urllib.parse.urlparse(self.path).path
        request = path.removeprefix(prefix) if path.startswith(prefix) else path
        with LOCK:
            try:
                reply, status = self.answer(request, json.loads(raw) if raw else None), 200
            except Refused as error:
                reply = {"error_code": error.code, "message": str(error)} if error.code else None
                page, status = str(error), error.status
            with open(os.path.join(FOLDER, "state.json.new"), "w", encoding="utf-8") as file:
                json.dump(STATE, file)
            os.rename(os.path.join(FOLDER, "state.json.new"), os.path.join(FOLDER, "state.json"))
            with open(sys.argv[2] + ".log", "a", encoding="utf-8") as log:
                log.write(f"{self.command} {request} {status}\n")
            to_drop = lines_of("drop")
            if status == 200 and request in to_drop:
                to_drop.remove(request)
                with open(os.path.join(FOLDER, "drop"), "w", encoding="utf-8") as file:
                    file.write("\n".join(to_drop))
                self.close_connection = True
                return
        text = (page if reply is None else json.dumps(reply)).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html" if reply is None else "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with open(sys.argv[2] + ".new", "w", encoding="utf-8") as file:
        file.write(f"{server.server_address[1]}\n")
    os.rename(sys.argv[2] + ".new", sys.argv[2])
    sys.stdin.buffer.read()


main()
