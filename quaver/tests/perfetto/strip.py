"""A trace whose wake-ups have lost their context. usage: strip.py TRACE COPY"""

import sys

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace

trace = Trace()
trace.ParseFromString(open(sys.argv[1], "rb").read())
for packet in trace.packet:
    flags = packet.ftrace_events.compact_sched.waking_common_flags
    flags[:] = [0] * len(flags)
open(sys.argv[2], "wb").write(trace.SerializeToString())
