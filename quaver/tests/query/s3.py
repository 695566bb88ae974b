"""An S3 server of the buckets in a folder. It answers what is signed by the key and the secret that it was started with, for that
region: the check is Signature Version 4 of Amazon's documents. Prints its port, and ends with its standard input.

usage: s3.py FOLDER KEY SECRET REGION
"""

import hashlib
import hmac
import pathlib
import re
import sys
import threading
from http.server import ThreadingHTTPServer

import localbucket

FOLDER, KEY, SECRET, REGION = sys.argv[1:]


def signed(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256)


class Guarded(localbucket.S3Handler):
    data_root = pathlib.Path(FOLDER)

    def log_message(self, format, *args):
        pass

    def is_allowed(self):
        given = re.fullmatch(
            r"AWS4-HMAC-SHA256 Credential=(.+), ?SignedHeaders=(.+), ?Signature=(.+)", self.headers.get("Authorization", "")
        )
        if not given:
            return False
        path, _, query = self.path.partition("?")
        headers = "".join(f"{name}:{self.headers[name]}\n" for name in given[2].split(";"))
        request = "\n".join([self.command, path, query, headers, given[2], self.headers["x-amz-content-sha256"]])
        date = self.headers["x-amz-date"]
        scope = f"{date[:8]}/{REGION}/s3/aws4_request"
        text = "\n".join(["AWS4-HMAC-SHA256", date, scope, hashlib.sha256(request.encode()).hexdigest()])
        key = f"AWS4{SECRET}".encode()
        for part in scope.split("/"):
            key = signed(key, part).digest()
        return given[1] == f"{KEY}/{scope}" and hmac.compare_digest(given[3], signed(key, text).hexdigest())

    def do_GET(self):
        if self.is_allowed():
            super().do_GET()
        else:
            self.send_error(403)

    def do_HEAD(self):
        if self.is_allowed():
            super().do_HEAD()
        else:
            self.send_error(403)


server = ThreadingHTTPServer(("127.0.0.1", 0), Guarded)
print(server.server_port, flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.stdin.read()
