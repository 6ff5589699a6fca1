"""Hosts are apart, are counted, and leave nothing behind, however the lab ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep

import pytest
from tests.lab.talk import TALK, listening, seconds

from gossamer.lab import Disagreement, Lab, Traffic, bits_per_second, guard, missing
from gossamer.parts.refusal import Refused

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))
SOON = 20.0  # seconds; on a busy machine everything takes its time

HOLD = """
import os, sys, time
from gossamer.lab import Lab
with Lab(hosts=2) as lab:
    child = lab.start(1, ["sh", "-c", "setsid sleep 300 & exec sleep 300"])
    time.sleep(0.2)
    print(os.getpid(), child.pid, lab.hosts[0].name.rpartition("-")[0], flush=True)
    time.sleep(300)
"""


def soon(true: Callable[[], bool]) -> bool:
    """Whether it becomes true before long."""
    late = monotonic() + SOON
    while not true() and monotonic() < late:
        sleep(0.02)
    return true()


def said(lab: Lab, host: int, *command: str) -> str:
    """What a command prints on a host."""
    with lab.start(host, command, env={"OWN": "set"}, stdout=subprocess.PIPE, text=True) as running:
        return str(running.communicate(timeout=SOON)[0]).strip()


def test_a_host_has_its_own_network_name_and_process_group(hosts: Lab) -> None:
    devices = said(hosts, 2, "sh", "-c", "ls /sys/class/net; hostname; echo $OWN; cut -d' ' -f1,5 /proc/self/stat")
    assert devices.split()[:4] == ["eth0", "lo", "host-2", "set"]
    assert hosts.hosts[2].address in said(hosts, 0, "getent", "hosts", "host-2")
    command = hosts.start(1, ["sleep", "60"])
    assert os.getpgid(command.pid) == command.pid != os.getpgid(0)
    command.kill()
    command.wait()


def test_the_machine_sees_nothing_of_it(hosts: Lab) -> None:
    devices = Path("/proc/net/dev").read_text()
    assert "port0" not in devices and "eth0@" not in devices
    routes = subprocess.run(["ip", "route"], capture_output=True, text=True, check=True).stdout
    assert hosts.hosts[0].address.rpartition(".")[0] not in routes


def test_links_count_what_really_passed(hosts: Lab) -> None:
    count, zero = 1 << 20, Traffic(0, 0)
    before = hosts.traffic()
    with listening(hosts, 3) as address, hosts.metered([count, 0, 0, 0]):
        seconds(hosts, 0, address, count // 4, 3)  # and one to warm up
    moved = [now - then for now, then in zip(hosts.traffic(), before, strict=True)]
    assert count < moved[0].sent == moved[3].received < 1.03 * count
    assert 0 < moved[0].received == moved[3].sent < 0.03 * count
    assert max(each.sent for each in moved[1:3]) < 200 and moved[1] != zero  # somebody asked for an address


@pytest.mark.parametrize("share", [0.8, 1.25], ids=["more than predicted", "less than predicted"])
def test_bytes_that_were_not_predicted_are_told_host_by_host(hosts: Lab, share: float) -> None:
    count = 1 << 20
    predicted = [0, share * count, 0, 0]
    with listening(hosts, 3) as address, pytest.raises(Disagreement) as found, hosts.metered(predicted):
        seconds(hosts, 1, address, count // 4, 3)
    rows = str(found.value).splitlines()
    assert "within 10% and 65,536 bytes" in rows[0]
    assert [row.split()[0] for row in rows[2:]] == ["0", "1", "2", "3"]
    assert ["disagrees" in row for row in rows[2:]] == [False, True, False, False]


def test_a_failure_inside_goes_before_the_bytes(hosts: Lab) -> None:
    with pytest.raises(ZeroDivisionError), hosts.metered([1e9] * 4):
        raise ZeroDivisionError
    with pytest.raises(ValueError, match="2 predictions for 4 hosts"), hosts.metered([0, 0]):
        pass


def test_a_link_is_cut_and_mended(hosts: Lab) -> None:
    with listening(hosts, 3) as address:
        hosts.cut(3)
        command = [*TALK, "send", address, "1000", "1"]
        with hosts.start(0, command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as client:
            sleep(0.5)
            assert client.poll() is None
            hosts.mend(3)
            assert client.wait(SOON) == 0  # what was lost is sent again


def test_two_labs_do_not_disturb_each_other(hosts: Lab) -> None:
    before = hosts.traffic()
    with Lab(hosts=2) as other, listening(other, 1) as address:
        assert address == hosts.hosts[1].address
        seconds(other, 0, address, 1 << 16, 1)
        assert other.traffic()[0].sent > 1 << 16
    moved = [now - then for now, then in zip(hosts.traffic(), before, strict=True)]
    assert max(each.sent for each in moved) < 1000
    assert said(hosts, 0, "echo", "still here") == "still here"


def test_leaving_a_lab_ends_and_removes_all_of_it() -> None:
    with pytest.raises(ZeroDivisionError), Lab(hosts=2, rate="10mbit") as lab:
        command = lab.start(0, ["sh", "-c", "trap '' TERM; sleep 300 & wait"])
        prefix = lab.hosts[0].name.rpartition("-")[0]
        assert len(guard.namespaces(prefix)) == 3
        assert soon(lambda: len(guard.residents([lab.hosts[0].name])) == 2)
        late = lab.start(1, ["sleep", "300"])  # may not be there yet when all is over
        raise ZeroDivisionError
    assert command.returncode == -signal.SIGKILL
    assert late.returncode is not None
    assert guard.namespaces(prefix) == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_lab_that_is_ended_leaves_nothing(number: signal.Signals) -> None:
    listen = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", listen + HOLD], stdout=pipe, stderr=pipe, text=True) as holder:
        assert holder.stdout is not None
        pid, child, prefix = holder.stdout.readline().split()
        inside = guard.residents(guard.namespaces(prefix))
        assert int(child) in inside and len(inside) == 2  # and the one that has left its process group
        os.kill(int(pid), number)
        holder.wait(SOON)
    assert soon(lambda: guard.namespaces(prefix) == [])
    assert soon(lambda: all(guard.gone(pid) for pid in inside))


def test_what_a_lab_left_whose_guard_was_killed_too_is_swept_by_the_next() -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        pid, child, prefix = holder.stdout.readline().split()
        for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            os.kill(int(each), signal.SIGKILL)
        holder.kill()
        holder.wait(SOON)
    assert len(guard.namespaces(prefix)) == 3
    with Lab(hosts=1):
        assert guard.namespaces(prefix) == []
        assert guard.gone(int(child))


@pytest.mark.parametrize("rate", ["100 foo", "", "-1mbit", "nan", "1gbit; rm", "0mbit", "1kbit", "900gbit", "100"])
def test_what_is_no_rate_is_refused(rate: str) -> None:
    with pytest.raises(Refused, match="1gbit, 100mbit or 500kbit"):
        Lab(hosts=2, rate=rate)


@pytest.mark.parametrize("count", [0, -1, 251, True, 2.0])
def test_what_is_no_number_of_hosts_is_refused(count: int) -> None:
    with pytest.raises(Refused, match="hosts must be"):
        Lab(hosts=count)


def test_rates_are_read_as_links_are_sold() -> None:
    texts = ("1gbit", "100Mbit", "100mbit/s", "2.5 gbit", "500kbit")
    assert [bits_per_second(text) for text in texts] == [10**9, 10**8, 10**8, 2_500_000_000, 500_000]
