"""Runs our ends of STAMP against stamp-suite's and judges what both say. Called by stamp.sh.

usage: stamp.py OURS THEIRS
"""

import json
import socket
import subprocess
import sys
from contextlib import contextmanager

KEY = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
COUNT = 20
SECONDS = 20
OURS, THEIRS = sys.argv[1:3]


def free_port(address):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.bind((address, 0))
        return probe.getsockname()[1]


def joined(address, port):
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def expect(what, found, wanted):
    if found != wanted:
        raise SystemExit(f"interop: {what}: {found}, not {wanted}")


def named(text):
    """Name=value words of our output."""
    return dict(word.split("=", 1) for word in text.split() if "=" in word)


@contextmanager
def their_reflector(address, options):
    port = free_port(address)
    command = [THEIRS, "--is-reflector", "--local-addr", address, "--local-port", str(port), *options]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        for line in process.stderr:
            if "listening on" in line:
                break
        else:
            raise SystemExit(f"interop: {' '.join(command)} ended before it listened")
        yield port
    finally:
        process.terminate()
        process.communicate(timeout=SECONDS)


@contextmanager
def our_reflector(address, options):
    command = [OURS, "reflect", joined(address, 0), *options]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        listening = process.stdout.readline()
        if not listening.startswith("listening "):
            raise SystemExit(f"interop: {' '.join(command)} said {listening!r}")
        yield int(listening.rsplit(":", 1)[1]), process
    finally:
        process.stdin.close()
        process.wait(timeout=SECONDS)


def our_sender(address, port, options):
    command = [OURS, "send", joined(address, port), f"count={COUNT}", "period_us=5000", *options]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=SECONDS)
    return named(done.stdout)


def their_sender(address, port, options):
    command = [THEIRS, "--remote-addr", address, "--remote-port", str(port), "--count", str(COUNT)]
    command += ["--send-delay", "5ms", "--timeout", "1", "--output-format", "json", *options]
    if ":" in address:
        command += ["--local-addr", address]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=SECONDS)
    return json.loads(done.stdout.splitlines()[-1])


def ours_to_theirs(address, stateful, key, ptp):
    reflector = ["--stateful-reflector"] if stateful else []
    reflector += ["--auth-mode", "A", "--hmac-key", KEY, "--verify-tlv-hmac"] if key else []
    reflector += ["--clock-source", "PTP"] if ptp else []
    sender = ([f"key={KEY}"] if key else []) + (["ptp"] if ptp else [])
    with their_reflector(address, reflector) as port:
        plain = our_sender(address, port, sender)
        asked = our_sender(address, port, sender + ["tlvs", "ssid=5", "dscp=46", "bytes=400"])
    for said in (plain, asked):
        expect("answered", said["answered"], str(COUNT))
        for name in ("foreign", "wrong_hmac", "flagged"):
            expect(name, said[name], "0")
        expect("stamps in order", said["ordered"], "true")
        expect("evidence", said["evidence"], "NothingLost")
        expect("reflector's last number", said["reflector_sequence"], str(COUNT - 1))
    expect("DSCP and policy there", asked["class_of_service"], "46/0")
    expect("DSCP of the reply", asked["backward_dscp"], "10")
    expect("packets received there", asked["received"], str(COUNT))
    expect("reply before", asked["follow_up"], str(COUNT - 2) if stateful else "0")
    expect("where we were seen", asked["location"], f"Some({address})")
    expect("way of stamping", asked["method"], "2")


def theirs_to_ours(address, stateful, key, ptp):
    reflector = ([] if stateful else ["stateless"]) + ([f"key={KEY}"] if key else []) + (["ptp"] if ptp else [])
    sender = ["--auth-mode", "A", "--hmac-key", KEY, "--verify-tlv-hmac"] if key else []
    sender += ["--clock-source", "PTP"] if ptp else []
    # In authenticated mode it seals what it asks for by itself.
    asking = ["--cos", "--dscp", "10", "--timestamp-info", "--location", "--follow-up-telemetry"]
    asking += ["--access-report", "1", "--extra-padding", "100", "--ssid", "5"]
    asking += ["--direct-measurement"] if stateful else []
    with our_reflector(address, reflector) as (port, process):
        plain = their_sender(address, port, sender)
        asked = their_sender(address, port, sender + asking)
        process.stdin.close()
        ours = named(process.stdout.read())
    expect("received here", ours["received"], str(2 * COUNT))
    expect("reflected here", ours["reflected"], str(2 * COUNT))
    for said in (plain, asked):
        expect("packets received", said["packets_received"], COUNT)
        expect("packets lost", said["packets_lost"], 0)
        expect("our last number", said["measurements"]["last_reflector_sequence"], COUNT - 1)
        expect("strange replies", said["measurements"]["unknown_replies"], 0)
    told = asked["measurements"]
    validation = told["tlv_validation"]
    expect("replies judged", validation["evaluated_replies"], COUNT)
    expect("replies rejected", validation["rejected_replies"], 0)
    for flag in ("unrecognized", "malformed", "integrity_failed"):
        expect(f"TLVs {flag}", validation["flags"][flag], 0)
    expect("HMACs verified", validation["hmac"]["verified"], COUNT if key else 0)
    expect("HMACs failed", validation["hmac"]["failed"], 0)
    expect("replies matched by a follow-up", told["follow_up"]["matched"], COUNT - 1 if stateful else 0)
    if stateful:
        expect("lost there", told["direct_measurement"]["forward_missing"], 0)
        expect("lost back", told["direct_measurement"]["reverse_missing"], 0)


def marks_from_ours():
    """What is malformed comes back marked, and the sender can go on."""
    with our_reflector("127.0.0.1", []) as (port, _):
        for fault in ("bad-length", "bad-flags"):
            # Without a TLV of its own their sender does not look at those of the reply.
            said = their_sender("127.0.0.1", port, ["--malformed", fault, "--timestamp-info"])
            expect(f"packets received with {fault}", said["packets_received"], COUNT)
            marked = said["measurements"]["tlv_validation"]["flags"]["malformed"]
            expect(f"TLVs marked with {fault}", marked, COUNT if fault == "bad-length" else 0)


def wrong_keys():
    other = KEY[::-1]
    with their_reflector("127.0.0.1", ["--auth-mode", "A", "--hmac-key", KEY]) as port:
        expect("answered with another key", our_sender("127.0.0.1", port, [f"key={other}"])["answered"], "0")
    with our_reflector("127.0.0.1", [f"key={KEY}"]) as (port, _):
        said = their_sender("127.0.0.1", port, ["--auth-mode", "A", "--hmac-key", other])
        expect("received with another key", said["packets_received"], 0)


def main():
    cases = 0
    for address in ("127.0.0.1", "::1"):
        for stateful, key, ptp in ((True, False, False), (False, False, True), (True, True, False), (False, True, True)):
            how = f"{address}, {'stateful' if stateful else 'stateless'}, {'HMAC' if key else 'open'}, {'PTP' if ptp else 'NTP'}"
            print(f"interop: our sender, their reflector: {how}")
            ours_to_theirs(address, stateful, key, ptp)
            print(f"interop: their sender, our reflector: {how}")
            theirs_to_ours(address, stateful, key, ptp)
            cases += 2
    print("interop: malformed TLVs")
    marks_from_ours()
    print("interop: keys that differ")
    wrong_keys()
    print(f"interop: {cases + 2} passed, 0 failed")


main()
