"""Prints facts of this machine that bear on the figures, one a line."""

import os
import platform
import re
import subprocess
from pathlib import Path


def first(path):
    try:
        return Path(path).read_text().strip()
    except OSError:
        return "none"


def output(*command):
    """First line that a command prints with a digit in it, wherever it prints it."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10)
    except OSError:
        return "not installed"
    lines = (done.stdout + done.stderr).splitlines()
    return next((line.strip() for line in lines if re.search(r"\d", line)), "unknown")


def processor():
    lines = first("/proc/cpuinfo").splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


def hypervisor():
    lines = output_all("lscpu").splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("Hypervisor")), "none")


def output_all(*command):
    return subprocess.run(command, capture_output=True, text=True).stdout


facts = {
    "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
    "processor": processor(),
    "CPUs": os.cpu_count(),
    "hypervisor": hypervisor(),
    "memory": first("/proc/meminfo").splitlines()[0].split(":")[1].strip(),
    "clock source": first("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
    "governor": first("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
    "idle driver": first("/sys/devices/system/cpu/cpuidle/current_driver"),
    "sched_rt_runtime_us": first("/proc/sys/kernel/sched_rt_runtime_us"),
    "load average": first("/proc/loadavg"),
    "git revision": output_all("git", "describe", "--always", "--dirty", "--abbrev=12").strip(),
    "quaver": output(os.environ["QUAVER_BIN"], "--version"),
    "rustc": output("rustc", "--version"),
    "clang": output("clang", "--version"),
    "iperf": output("iperf", "--version"),
    "iperf3": output("iperf3", "--version"),
    "owping": output("owping", "-V"),
    "sockperf": output("sockperf", "--version"),
    "irtt": output("irtt", "version"),
    "tcpdump": output("tcpdump", "--version"),
    "dumpcap": output("dumpcap", "--version"),
    "python": platform.python_version(),
}
for name, value in facts.items():
    print(f"{name + ':':22}{value}")
