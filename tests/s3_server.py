"""An S3 server on this machine: moto in a process of its own, so that its warnings and threads are not ours."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from support import missing

_SERVER = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
server.stop()
"""


@contextmanager
def s3_bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Give the URL of an empty bucket; login and endpoint stand in the usual variables."""
    try:
        import moto.server  # noqa: F401
        import s3fs
    except ImportError:
        missing("moto[server] and s3fs are not installed")
    with subprocess.Popen(
        [sys.executable, "-c", _SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            port = int(server.stdout.readline())
            monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
            monkeypatch.setenv("AWS_ACCESS_KEY_ID", "tests")
            monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "tests")
            monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
            s3fs.S3FileSystem.clear_instance_cache()  # it may know the server of another test
            s3fs.S3FileSystem().mkdir("bucket")
            yield "s3://bucket"
        finally:
            s3fs.S3FileSystem.clear_instance_cache()
            server.stdin.close()
            server.wait(30)
