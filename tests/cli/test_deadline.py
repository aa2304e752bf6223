"""A signal ends a command within seconds, also where Python's own handler comes late or is lost."""

import signal
import subprocess
import sys
import time

import pytest

from isojepa.cli.main import Deadline

STUCK = {
    "in a library": "import hashlib; hashlib.pbkdf2_hmac('sha256', b'', b'', 10**9)",
    "in a callback": """
import time
while True:
    try: time.sleep(60)
    except KeyboardInterrupt: pass
""",
}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("code", STUCK.values(), ids=STUCK)
def test_a_command_that_does_not_hear_a_signal_is_ended(code, number):
    start = "import signal\nfrom isojepa.cli.main import Deadline\n"
    start += "signal.signal(signal.SIGTERM, signal.default_int_handler)\nDeadline('stopped', 1.0)\n"
    start += "print('ready', flush=True)\n"
    process = subprocess.Popen(
        [sys.executable, "-c", start + code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.3)
    process.send_signal(number)
    sent = time.monotonic()
    _, error = process.communicate(timeout=30)
    assert (process.returncode, error) == (130, "stopped\n")
    assert 0.9 < time.monotonic() - sent < 5


def test_a_command_that_ended_by_itself_leaves_the_process_alone():
    before = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(before)
    deadline = Deadline("stopped", 0.05)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    deadline.cancel()
    time.sleep(0.2)
    assert signal.set_wakeup_fd(before) == before
