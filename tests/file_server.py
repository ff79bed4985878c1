#!/usr/bin/env python3
"""usage: file_server.py FOLDER PORT-FILE [CERTIFICATE KEY]

An HTTP(S) server on loopback. The path of a request selects the fault of its reply.

Serves the files of FOLDER on a free port, and writes the port to PORT-FILE when it listens. Ends at
the end of its standard input. PORT-FILE.log has a line for each GET, with the byte at which the
requested range starts. A POST gets its body back, with the status 201. A CONNECT gets the status
403. The values of FAULT in a path /FAULT/FILE:

  cut        the first reply ends in the middle of the file; the client can request the rest
  cut-old    like cut, but the server ignores ranges: each reply starts with the first byte
  cut-other  the first reply is half of another, longer file; later replies are the complete FILE
  cut-end    the first reply has all bytes, but no end marker; the server answers a request for the
             rest with 416, and later sends the complete FILE
  cut-wrong  the first reply is cut; the reply to a request for the rest starts one byte too early
  short      each reply is one byte shorter than its announced length; the server ignores ranges
  cut-ever   each reply ends after three bytes
  stall      half of the file, then nothing until the client disconnects
  silent     no reply
  to-ftp     a redirect to an ftp URL
  to-file    a redirect to a file URL
  to-plain   a redirect to an http URL
  here       a redirect to FILE on this server
  loop       a redirect to the same path
  status-N   a reply with the status code N
  long       one byte more than FILE, without a length
  bare       the bytes of the file without a header
  gzip       the uncompressed bytes of the file, labelled as compressed
"""

import http.server
import os
import ssl
import sys
import threading


# The targets of redirects. "": the path of the request.
REDIRECT_TARGETS = {"to-ftp": "ftp://127.0.0.1/f", "to-file": "file:///etc/passwd",
                    "to-plain": "http://127.0.0.1:1/f", "loop": ""}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    request_counts = {}

    def log_message(self, *_):
        pass

    def do_GET(self):
        parts = self.path.lstrip("/").split("/")
        fault = parts[0] if len(parts) > 1 else ""
        start = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").rstrip("-"))
        with open(sys.argv[2] + ".log", "a") as log:
            log.write(f"{self.path} from {start}\n")
        request_number = self.request_counts.get(self.path, 0) + 1
        self.request_counts[self.path] = request_number
        if fault == "silent":
            return self.wait()
        if fault.startswith("status-"):
            return self.answer(int(fault.removeprefix("status-")), b"no such luck")
        if fault in REDIRECT_TARGETS:
            target = REDIRECT_TARGETS[fault] or self.path
            return self.answer(302, b"elsewhere", {"Location": target})
        if fault == "here":
            return self.answer(302, b"elsewhere", {"Location": "/" + parts[-1]})
        try:
            with open(os.path.join(sys.argv[1], parts[-1]), "rb") as file:
                content = file.read()
        except OSError:
            return self.answer(404, b"not found")
        if fault == "bare":
            self.close_connection = True
            return self.wfile.write(content)
        if fault == "cut-end" and request_number == 1:
            self.close_connection = True
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            return self.wfile.write(b"%x\r\n%s\r\n" % (len(content), content))
        if fault == "cut-end" and start > 0:
            return self.answer(416, b"no such range")
        if fault == "cut-wrong" and start > 0:
            start -= 1
        if fault == "long":
            self.close_connection = True
            self.send_response(200)
            self.end_headers()
            return self.wfile.write(content + b"!")
        if fault == "cut-other" and request_number == 1:
            content = b"x" * (4 * len(content))
        if fault in ("cut-old", "cut-other", "short") or start == 0:
            start = 0
            self.send_response(200)
        else:
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        if fault == "gzip":
            self.send_header("Content-Encoding", "gzip")
        rest = content[start:]
        self.send_header("Content-Length", str(len(rest) + (fault == "short")))
        self.end_headers()
        if fault == "cut-ever":
            rest = rest[:3]
        elif fault == "stall" or (fault.startswith("cut") and request_number == 1):
            rest = rest[: len(rest) // 2]
        self.wfile.write(rest)
        if fault == "stall":
            self.wait()
        self.close_connection = fault != ""

    def do_POST(self):
        self.answer(201, self.rfile.read(int(self.headers.get("Content-Length", "0"))))

    def do_CONNECT(self):
        self.answer(403, b"not through here")

    def answer(self, status, body, headers=None):
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def wait(self):
        """Waits until the client disconnects."""
        self.wfile.flush()
        while self.connection.recv(1024):
            pass
        self.close_connection = True


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):  # A client that disconnects causes no report.
        pass


def main():
    server = Server(("127.0.0.1", 0), Handler)
    if len(sys.argv) > 3:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(sys.argv[3], sys.argv[4])
        server.socket = context.wrap_socket(server.socket, server_side=True)
    with open(sys.argv[2] + ".new", "w") as file:
        file.write(str(server.server_address[1]))
    os.rename(sys.argv[2] + ".new", sys.argv[2])
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()  # The server ends together with the process that started it.


if __name__ == "__main__":
    main()
