#!/usr/bin/env python3
"""usage: rest_proxy.py SOCKET swallow|hold|reset REAL-SOCKET
       rest_proxy.py SOCKET answer STATUS BODY
       rest_proxy.py SOCKET intercept STATUS BODY REAL-SOCKET
       rest_proxy.py SOCKET accept_but_refuse STATUS[,STATUS...] BODY REAL-SOCKET
       rest_proxy.py SOCKET warn|error REAL-SOCKET
       rest_proxy.py FILE tls CERTIFICATE KEY REAL-PORT

Simulates one of these: a network that fails between dlrun and a real slurmrestd; a server of
another kind (answer); TLS in front of a real slurmrestd on loopback (tls). Listens on the unix
socket SOCKET.

  swallow  A submission reaches slurmrestd, but its connection ends without a reply. Other requests
           pass.
  hold     A submission reaches slurmrestd, but its connection stays open without a reply; the file
           SOCKET.held then exists. Other requests pass.
  reset    The first submission is not forwarded, and its connection just ends. For each other path,
           the first two requests end in this way. The file SOCKET.log has a line for each request.
  answer   Every request gets STATUS and BODY. If BODY is "100MB", the reply is 100 MB of spaces.
  intercept
           A submission gets STATUS and BODY, as with `answer`, and does not reach slurmrestd.
           Other requests pass. The file SOCKET.log has a line for each submission.
  accept_but_refuse
           The first submission gets the first STATUS, the second one gets the second, and so on,
           with BODY. Only submissions that get the last STATUS reach slurmrestd. Slurm queues their
           jobs, but the client gets STATUS and BODY instead of slurmrestd's reply, as if a gateway
           forwarded a request and then refused it. Other requests pass.
  warn     All requests pass. The reply to a submission also has a warning about an ignored field.
  error    All requests pass. The reply to a submission has status 500 and an error, like the reply
           of a slurmrestd about a job that was queued and cannot start now.
  tls      Listens on a port of loopback and writes its number to FILE. Each request adds a line.
"""

import http.client
import http.server
import json
import os
import socket
import socketserver
import ssl
import sys
import threading
import time


class TlsServer(socketserver.ThreadingMixIn, socketserver.TCPServer):
    daemon_threads = True

    def handle_error(self, *_):  # A client may abort a handshake.
        pass


class TlsHandler(socketserver.BaseRequestHandler):
    def handle(self):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(sys.argv[3], sys.argv[4])
        with context.wrap_socket(self.request, server_side=True) as client:
            stream = client.makefile("rb")
            request_line = stream.readline()
            if not request_line:  # The client closed the connection without a request.
                return
            headers = http.client.parse_headers(stream)
            body = stream.read(int(headers.get("Content-Length", 0)))
            with open(sys.argv[1], "a") as file:
                print(request_line.decode().strip(), file=file)
            del headers["Connection"]
            headers["Connection"] = "close"
            lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            with socket.create_connection(("127.0.0.1", int(sys.argv[5]))) as real:
                real.sendall(request_line + lines.encode() + b"\r\n" + body)
                while answer := real.recv(1 << 16):
                    client.sendall(answer)


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def address_string(self):
        return "client"

    def log_message(self, *_):
        pass

    def handle_one(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        is_submission = self.path.endswith("/job/submit")
        if mode == "reset" or (mode == "intercept" and is_submission):
            self.log_request_line()
        if mode == "reset" and self.count_request() <= (1 if self.command == "POST" else 2):
            self.end_connection()
            return
        statuses = sys.argv[3].split(",") if mode == "accept_but_refuse" else []
        try_number = self.count_request() if mode == "accept_but_refuse" and is_submission else 0
        if 0 < try_number < len(statuses):
            status, content = int(statuses[try_number - 1]), sys.argv[4].encode()
        elif mode == "answer" or (mode == "intercept" and is_submission):
            status = int(sys.argv[3])
            content = b" " * 100_000_000 if sys.argv[4] == "100MB" else sys.argv[4].encode()
        else:
            status, content = self.forward(body)
            if is_submission and mode == "accept_but_refuse":
                status, content = int(statuses[-1]), sys.argv[4].encode()
            if is_submission and mode in ("swallow", "hold"):
                self.lose_reply()
                return
            if is_submission and mode == "warn":
                content = with_entry(content, "warnings", {
                    "description": 'Ignoring unknown field "odd" of type string',
                    "source": "#/job/odd/"})
            if is_submission and mode == "error":
                status, content = 500, with_entry(content, "errors", {
                    "error_number": 2015, "source": "slurm_submit_batch_job()",
                    "error": "Requested partition configuration not available now"})
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_DELETE = handle_one

    def forward(self, body):
        head = f"{self.command} {self.path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        if body:
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        with socket.socket(socket.AF_UNIX) as real:
            real.connect(sys.argv[-1])
            real.sendall(head.encode() + b"\r\n" + body)
            answer = http.client.HTTPResponse(real, method=self.command)
            answer.begin()
            return answer.status, answer.read()

    def count_request(self):
        """Returns the number of the requests to this path so far, including this one."""
        with lock:
            request_counts[self.path] = request_counts.get(self.path, 0) + 1
            return request_counts[self.path]

    def log_request_line(self):
        with lock, open(sys.argv[1] + ".log", "a") as log:
            print(self.command, self.path, file=log)

    def lose_reply(self):
        if mode == "hold":
            open(sys.argv[1] + ".held", "w").close()
            time.sleep(600)
        self.end_connection()

    def end_connection(self):
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)


def with_entry(content, name, entry):
    """Returns the reply with an additional entry in its list `name`."""
    reply = json.loads(content)
    reply.setdefault(name, []).append(entry)
    return json.dumps(reply).encode()


mode = sys.argv[2]
request_counts, lock = {}, threading.Lock()
if mode == "tls":
    server = TlsServer(("127.0.0.1", 0), TlsHandler)
    with open(sys.argv[1], "w") as file:
        print(server.server_address[1], file=file)
    server.serve_forever()
if os.path.exists(sys.argv[1]):
    os.unlink(sys.argv[1])
Server(sys.argv[1], Handler).serve_forever()
