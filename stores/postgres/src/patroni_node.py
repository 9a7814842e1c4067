"""Runs a member of etcd and Patroni as one server, which ends if one of them does.

patroni_node.py POSTMASTER_PID_FILE ETCD [ARGUMENT ...] -- PATRONI [ARGUMENT ...]
"""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time

# Patroni detaches PostgreSQL, which becomes a child of this process: it stays in the tree of the node's processes.
PR_SET_CHILD_SUBREAPER = 36
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
# Patroni gives initdb the password in a temporary file, which is removed with the node.
os.environ["TMPDIR"] = os.path.dirname(os.path.abspath(__file__))

between = sys.argv.index("--")
etcd = subprocess.Popen(sys.argv[2:between])
started = [etcd]


def leave(*_):
    """Ends all at once."""
    for process in started:
        process.kill()
    try:
        with open(sys.argv[1]) as file:
            os.kill(int(file.readline()), signal.SIGQUIT)
    except (OSError, ValueError):
        pass
    os._exit(0)


signal.signal(signal.SIGQUIT, leave)
for passed_on in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(passed_on, lambda number, _: os.kill(started[-1].pid, number))

# Patroni waits 5 s if etcd does not listen yet.
url = next(word for word in sys.argv if word.startswith("--listen-client-urls="))
host, port = url.rsplit("/", 1)[1].split(":")
while etcd.poll() is None:
    try:
        socket.create_connection((host, int(port)), 1).close()
        break
    except OSError:
        time.sleep(0.02)
else:
    sys.exit(1)
started.append(subprocess.Popen(sys.argv[between + 1:]))
while True:
    pid, status = os.wait()
    if any(pid == process.pid for process in started):
        sys.exit(os.waitstatus_to_exitcode(status) % 256)
