#!/usr/bin/env python3
"""usage: notice_server.py LOG PORT-FILE [PORT]

An HTTP server on loopback that receives the notices that dlrun sends (the key notify). Appends each
request to LOG, one JSON object per line: {"path", "type", "agent", "body"}, where type and agent
are the Content-Type and the User-Agent. Writes its port to PORT-FILE when it listens. Runs until a
signal ends it. The first part of the path selects the reply:

  /ok/...        the status 200
  /status-N/...  the status N
  /redirect/...  a redirect to /ok/redirected
  /silent/...    no reply; the server closes the connection after 60 s
  anything else  the status 200
"""

import http.server
import json
import os
import sys
import time


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        line = json.dumps({"path": self.path, "type": self.headers.get("Content-Type"),
                           "agent": self.headers.get("User-Agent"),
                           "body": json.loads(body.decode())})
        with open(sys.argv[1], "a", encoding="utf-8") as log:
            log.write(line + "\n")
        reply = self.path.split("/")[1]
        if reply == "silent":
            time.sleep(60)
            self.close_connection = True
            return
        status = int(reply.removeprefix("status-")) if reply.startswith("status-") else 200
        if reply == "redirect":
            status = 307
        self.send_response(status)
        if reply == "redirect":
            self.send_header("Location", "/ok/redirected")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    do_GET = do_POST


def main():
    port = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    with open(sys.argv[2] + ".new", "w", encoding="utf-8") as file:
        file.write(f"{server.server_address[1]}\n")
    os.rename(sys.argv[2] + ".new", sys.argv[2])
    server.serve_forever()


main()
