"""Captures made byte by byte, each with an account of its own; `quaver analyze --json` beside it.

python3 offline.py QUAVER FOLDER [CASE...]      prints a line a case: right, or what differs
"""
import gzip, json, os, struct, subprocess, sys

QUAVER, FOLDER, ONLY = sys.argv[1], sys.argv[2], sys.argv[3:]
T0 = 1_790_000_000_000_000_000
MS = 1_000_000
CASES = []


def case(function):
    CASES.append(function)
    return function


# --- packets -------------------------------------------------------------------------------------

def udp(payload, sport=5000, dport=6000, length=None):
    return struct.pack('>HHHH', sport, dport, 8 + len(payload) if length is None else length, 0) + payload


def ip4(inner, proto=17, src='10.0.0.1', dst='10.0.0.2', ident=0, flags=0, total=None):
    a = lambda t: bytes(map(int, t.split('.')))
    total = 20 + len(inner) if total is None else total
    return struct.pack('>BBHHHBBH', 0x45, 0, total, ident, flags, 64, proto, 0) + a(src) + a(dst) + inner


def ip6(inner, nxt=17, src=1, dst=2):
    return struct.pack('>IHBB', 6 << 28, len(inner), nxt, 64) + src.to_bytes(16, 'big') + dst.to_bytes(16, 'big') + inner


def eth(inner, kind=0x0800, tags=()):
    head = bytes(12)
    for tpid, vid in tags:
        head += struct.pack('>HH', tpid, vid)
    return head + struct.pack('>H', kind) + inner


def rtp(seq, ts, ssrc=7, pt=0, marker=0, media=bytes(160)):
    return struct.pack('>BBHII', 0x80, pt | marker << 7, seq & 0xffff, ts & 0xffffffff, ssrc) + media


def audio(count, first=1000, wrap=lambda d: eth(ip4(d)), ts=0, step=160, **more):
    return [(T0 + n * 20 * MS, wrap(udp(rtp(first + n, ts + step * n, **more)))) for n in range(count)]


# --- files ---------------------------------------------------------------------------------------

def pcap(packets, link=1, order='<', nano=True, snap=262144):
    magic = 0xa1b23c4d if nano else 0xa1b2c3d4
    out = [struct.pack(order + 'IHHiIII', magic, 2, 4, 0, 0, snap, link)]
    for ns, data in packets:
        part = ns % 10**9 if nano else ns % 10**9 // 1000
        out.append(struct.pack(order + 'IIII', ns // 10**9, part, min(len(data), snap), len(data)) + data[:snap])
    return b''.join(out)


def block(kind, body, order='<'):
    body += bytes(-len(body) % 4)
    return struct.pack(order + 'II', kind, 12 + len(body)) + body + struct.pack(order + 'I', 12 + len(body))


def opt(code, value, order='<'):
    return struct.pack(order + 'HH', code, len(value)) + value + bytes(-len(value) % 4)


def shb(order='<', major=1):
    return block(0x0a0d0d0a, struct.pack(order + 'IHHq', 0x1a2b3c4d, major, 0, -1), order)


def idb(link=1, snap=0, res=9, order='<', offset=None):
    options = opt(9, bytes([res]), order)
    if offset is not None:
        options += opt(14, struct.pack(order + 'q', offset), order)
    return block(1, struct.pack(order + 'HHI', link, 0, snap) + options + opt(0, b'', order), order)


def epb(ns, data, iface=0, order='<', units=None, kept=None, options=b''):
    units = ns if units is None else units
    kept = len(data) if kept is None else kept
    body = struct.pack(order + 'IIIII', iface, units >> 32, units & 0xffffffff, kept, len(data)) + data[:kept]
    return block(6, body + bytes(-kept % 4) + options, order)


def analyze(path):
    done = subprocess.run([QUAVER, 'analyze', path, '--json'], capture_output=True, text=True, timeout=60)
    try:
        return done.returncode, json.loads(done.stdout), done.stderr
    except ValueError:
        return done.returncode, None, done.stderr + done.stdout


def tshark(path, *args):
    done = subprocess.run(['tshark', '-r', path, *args], capture_output=True, text=True)
    return done.stdout


def store(name, octets):
    path = os.path.join(FOLDER, name)
    with open(path, 'wb') as file:
        file.write(octets)
    return path


def flows(found):
    """Of each flow: kind, id, restart, packets, lost."""
    out = []
    for flow in found['flows']:
        key, seq = flow, flow['sequence'] or {}
        tunnel = key['tunnel']
        out.append((key['kind'], key['id'], key['restart'], str(tunnel), flow['packets'], seq.get('lost')))
    return out


def pdv_ms(flow):
    delay = flow['delay']
    return None if not delay else round(delay['figures']['max_pdv_ns'] / 1e6, 3)


class Check:
    def __init__(self):
        self.wrong, self.notes = [], []

    def eq(self, what, got, want):
        if got != want:
            self.wrong.append(f'{what}: {got}, expected {want}')

    def note(self, text):
        self.notes.append(str(text))


def one(check, name, octets, want, suffix='.pcap'):
    """Analyzes, and holds what every capture must have against capinfos."""
    path = store(name + suffix, octets)
    status, found, words = analyze(path)
    if found is None:
        check.wrong.append(f'status {status}: {words.strip()[:300]}')
        return None, path
    for key, value in want.items():
        check.eq(key, flows(found) if key == 'flows' else found[key], value)
    return found, path


# --- links, tunnels, frames ------------------------------------------------------------------------

def rtp_flow(packets=20, tunnel='None', lost=0, ssrc=7, restart=0):
    return ('rtp', ssrc, restart, tunnel, packets, lost)


def wrapped(name, wrap, tunnel='None', link=1):
    def run(check):
        found, path = one(check, name, pcap(audio(20, wrap=wrap), link), {'flows': [rtp_flow(tunnel=tunnel)]})
        if found:
            check.eq('without_network', found['without_network']['packets'], 0)
    run.__name__ = name
    CASES.append(run)


label = lambda number, bottom: struct.pack('>I', number << 12 | bottom << 8 | 64)
wrapped('qinq', lambda d: eth(ip4(d), tags=[(0x88a8, 5), (0x8100, 6)]))
wrapped('three_tags', lambda d: eth(ip4(d), tags=[(0x88a8, 5), (0x8100, 6), (0x8100, 7)]))
wrapped('mpls_one', lambda d: eth(label(100, 1) + ip4(d), 0x8847))
wrapped('mpls_two_in_vlan', lambda d: eth(label(100, 0) + label(200, 1) + ip4(d), 0x8847, [(0x8100, 3)]))
wrapped('mpls_ipv6', lambda d: eth(label(100, 1) + ip6(d), 0x8847))
wrapped('mpls_pseudowire', lambda d: eth(label(100, 1) + bytes(4) + eth(ip4(d)), 0x8847))
wrapped('pppoe', lambda d: eth(struct.pack('>BBHHH', 0x11, 0, 9, len(ip4(d)) + 2, 0x21) + ip4(d), 0x8864))
wrapped('snap', lambda d: bytes(12) + struct.pack('>H', 8 + len(ip4(d))) + b'\xaa\xaa\x03\0\0\0\x08\0' + ip4(d))
wrapped('gre', lambda d: eth(ip4(b'\0\0\x08\0' + ip4(d), 47)), "{'gre': None}")
wrapped('gre_all', lambda d: eth(ip4(b'\xb0\0\x08\0' + bytes(4) + b'\0\0\0\x09' + bytes(4) + ip4(d), 47)), "{'gre': 9}")
wrapped('gre_ethernet', lambda d: eth(ip4(b'\x20\0\x65\x58\0\0\0\x09' + eth(ip4(d)), 47)), "{'gre': 9}")
wrapped('ip_in_ip', lambda d: eth(ip4(ip4(d), 4)), 'ip')
wrapped('six_in_four', lambda d: eth(ip4(ip6(d), 41)), 'ip')
wrapped('ip6_in_ip6', lambda d: eth(ip6(ip6(d), 41), 0x86dd), 'ip')
vxlan = lambda vni, frame: eth(ip4(udp(b'\x08\0\0\0' + struct.pack('>I', vni << 8) + frame, 40000, 4789), src='1.1.1.1', dst='1.1.1.2'))
wrapped('vxlan', lambda d: vxlan(5, eth(ip4(d))), "{'vxlan': 5}")
wrapped('vxlan_tagged_inside', lambda d: vxlan(5, eth(ip4(d), tags=[(0x8100, 9)])), "{'vxlan': 5}")
wrapped('ip6_headers', lambda d: eth(ip6(b'\x3c\0' + bytes(6) + b'\x2b\0' + bytes(6) + b'\x11\0\0\0\0\0\0\0' + d, 0), 0x86dd))
wrapped('ip6_ah', lambda d: eth(ip6(b'\x11\x04' + bytes(22) + d, 51), 0x86dd))
wrapped('null_v6', lambda d: struct.pack('<I', 30) + ip6(d), link=0)
wrapped('sll', lambda d: bytes(14) + b'\x08\0' + ip4(d), link=113)
wrapped('sll2_vlan', lambda d: b'\x81\0' + bytes(18) + b'\0\x05\x08\0' + ip4(d), link=276)
wrapped('raw_ip6', lambda d: ip6(d), link=229)
wrapped('ppp', lambda d: b'\xff\x03\0\x21' + ip4(d), link=9)


@case
def padded_frames(check):
    # Frames of 64 bytes hold a datagram of 24: the padding is no payload.
    packets = [(T0 + n * MS, (eth(ip4(udp(rtp(n, 8 * n, media=b'1234'))))).ljust(64, b'\xee')) for n in range(20)]
    found, _ = one(check, 'padded', pcap(packets), {'flows': [rtp_flow()], 'octets': 20 * 64})
    check.eq('payload', found['flows'][0]['payload_octets'], 20 * 16)


@case
def runts(check):
    sizes = [0, 1, 5, 13, 14, 15, 33, 34, 41, 42, 43]
    whole = eth(ip4(udp(b'x' * 8)))
    packets = [(T0 + n * MS, whole[:size]) for n, size in enumerate(sizes)]
    for kind, octets in (('.pcap', pcap(packets)), ('.pcapng', shb() + idb() + b''.join(epb(*p) for p in packets))):
        found, path = one(check, 'runts', octets, {'packets': len(sizes), 'octets': sum(sizes)}, kind)
        check.note(found['without_network'])


@case
def tcp_cut(check):
    tcp = lambda n: struct.pack('>HHIIBBHHH', 80, 6000, n, 0, 0x50, 0x10, 100, 0, 0) + bytes(n)
    sizes = [0, 1, 5, 6, 100, 1000, 1460]
    for snap in (60, 54, 80, 262144):
        packets = [(T0 + k * MS, eth(ip4(tcp(n), 6))) for k, n in enumerate(sizes)]
        found, path = one(check, f'tcp_cut_{snap}', pcap(packets, snap=snap), {'packets': len(sizes)})
        lengths = sum(map(int, tshark(path, '-T', 'fields', '-e', 'tcp.len').split()))
        check.eq(f'payload at {snap} bytes', found['flows'][0]['payload_octets'], lengths)
        packets = [(T0 + k * MS, eth(ip6(tcp(n), 6), 0x86dd)) for k, n in enumerate(sizes)]
        found, path = one(check, f'tcp6_cut_{snap}', pcap(packets, snap=max(snap, 74)), {'packets': len(sizes)})
        check.eq(f'payload of IPv6 at {snap} bytes', found['flows'][0]['payload_octets'], sum(sizes))


@case
def jumbo_cut(check):
    packets = [(T0 + n * MS, eth(ip4(udp(rtp(n, 8 * n, media=bytes(8900)))))) for n in range(20)]
    found, _ = one(check, 'jumbo', pcap(packets, snap=128), {'flows': [rtp_flow()]})
    check.eq('payload', found['flows'][0]['payload_octets'], 20 * 8912)
    check.eq('cut', found['interfaces'][0]['cut'], 20)


@case
def lengths_that_lie(check):
    body = b'z' * 30
    frames = [eth(ip4(udp(body, length=0))), eth(ip4(udp(body, length=7))), eth(ip4(udp(body, length=60000))),
              eth(ip4(udp(body), total=0)), eth(ip4(udp(body), total=10)), eth(ip4(udp(body), total=65535))]
    found, path = one(check, 'lies', pcap([(T0 + n * MS, f) for n, f in enumerate(frames)]), {'packets': 6})
    check.note([(f['packets'], f['payload_octets']) for f in found['flows']])
    check.note(tshark(path, '-T', 'fields', '-e', 'udp.length').split())


# --- parts -----------------------------------------------------------------------------------------

@case
def parts_in_two_tunnels(check):
    # The same addresses and the same number inside of two networks, whose parts alternate.
    packets = []
    for n in range(20):
        for vni, port in ((1, 6000), (2, 7000)):
            whole = udp(rtp(n, 8 * n, ssrc=vni, media=bytes(1588)), dport=port)
            packets.append((0, vxlan(vni, eth(ip4(whole[:1000], ident=n, flags=0x2000)))))
            packets.append((1, vxlan(vni, eth(ip4(whole[1000:], ident=n, flags=125)))))
    order = []
    for at in range(0, len(packets), 4):
        a, b, c, d = packets[at:at + 4]
        order += [a, c, b, d]
    stamped = [(T0 + n * MS, frame) for n, (_, frame) in enumerate(order)]
    one(check, 'parts_tunnels', pcap(stamped), {'flows': [
        rtp_flow(40, "{'vxlan': 1}", ssrc=1), rtp_flow(40, "{'vxlan': 2}", ssrc=2)]})


@case
def parts_of_ipv6(check):
    packets = []
    for n in range(20):
        whole = udp(rtp(n, 8 * n, media=bytes(1588)))
        head = lambda offset, more: struct.pack('>BBHI', 17, 0, offset | more, n)
        packets.append(eth(ip6(head(0, 1) + whole[:1000], 44), 0x86dd))
        packets.append(eth(ip6(head(1000, 0) + whole[1000:], 44), 0x86dd))
    one(check, 'parts6', pcap([(T0 + n * MS, f) for n, f in enumerate(packets)]), {'flows': [rtp_flow(40)]})


@case
def parts_without_the_first(check):
    # Of each third datagram the first part is lost: a third of the numbers did not come whole.
    packets = []
    for n in range(30):
        whole = udp(rtp(n, 8 * n, media=bytes(1588)))
        if n % 3 != 1:
            packets.append(eth(ip4(whole[:1000], ident=n, flags=0x2000)))
        packets.append(eth(ip4(whole[1000:], ident=n, flags=125)))
    found, _ = one(check, 'parts_lost', pcap([(T0 + n * MS, f) for n, f in enumerate(packets)]), {})
    check.note(flows(found))


# --- files -----------------------------------------------------------------------------------------

@case
def unlike_interfaces(check):
    a = audio(20)
    out = shb() + idb(1, 96, 9) + idb(101, 0, 6) + idb(276, 80, 0x80 | 20) + idb(0, 0, 3, offset=1000) + idb(147)
    bodies = [lambda d: eth(d), lambda d: d, lambda d: b'\x08\0' + bytes(18) + d, lambda d: struct.pack('<I', 2) + d, lambda d: d]
    total = 0
    for n in range(20):
        ns = T0 + n * 20 * MS
        for i, body in enumerate(bodies):
            data = body(ip4(udp(rtp(n, 160 * n, ssrc=i), dport=6000 + 2 * i)))
            total += len(data)
            units = [ns, ns // 1000, ns * 2**20 // 10**9, ns // MS - 1_000_000, ns][i]
            kept = [96, None, 80, None, None][i]
            out += epb(0, data, i, units=units, kept=kept)
    found, path = one(check, 'unlike', out, {'packets': 100, 'octets': total, 'first_ns': T0}, '.pcapng')
    check.eq('in_file', [i['in_file'] for i in found['interfaces']], [20] * 5)
    check.eq('cut', [i['cut'] for i in found['interfaces']], [20, 0, 20, 0, 0])
    check.eq('decoded', [i['decoded'] for i in found['interfaces']], [True, True, True, True, False])
    check.eq('flows', sorted(flows(found)), sorted(rtp_flow(ssrc=i) for i in range(4)))
    check.eq('span', found['last_ns'] - found['first_ns'], 380 * MS)
    check.note(found['warnings'])


@case
def every_form(check):
    packets = audio(20)
    for name, octets in [
        ('le_ns.pcap', pcap(packets)), ('be_ns.pcap', pcap(packets, order='>')),
        ('be_us.pcap', pcap(packets, order='>', nano=False)), ('fcs.pcap', pcap(packets, link=1 | 0x24000000)),
        ('be.pcapng', shb('>') + idb(order='>') + b''.join(epb(*p, order='>') for p in packets)),
        ('gz.pcap.gz', gzip.compress(pcap(packets, order='>'))),
    ]:
        path = store(name, octets)
        status, found, words = analyze(path)
        check.eq(name, found and (found['packets'], found['octets'], found['first_ns'], flows(found)), (20, 20 * 214, T0, [rtp_flow()]))


@case
def unknown_blocks(check):
    packets = audio(20)
    strange = [block(0x80000001, b'abc'), block(4, b''), block(10, struct.pack('<II', 0x544c534b, 4) + b'keys'),
               block(9, b'__REALTIME=1\n'), block(0xbad, struct.pack('<I', 32473) + b'x' * 40), block(0x40000bad, bytes(5)),
               block(0xffffffff, bytes(70000)), block(3 + 0x7000, b'')]
    out = shb() + idb()
    for n, packet in enumerate(packets):
        out += strange[n % len(strange)] + epb(*packet)
    found, path = one(check, 'unknown', out, {'packets': 20, 'flows': [rtp_flow()], 'complete': True}, '.pcapng')
    check.eq('warnings', found['warnings'], [])


@case
def options_with_broken_lengths(check):
    packets = audio(20)
    bad = [opt(2, b'\0'), struct.pack('<HH', 2, 400) + bytes(4), struct.pack('<HH', 2989, 3) + b'abc\0', struct.pack('<H', 1) + b'\0\0',
           opt(1, b'\xff\xfe'), opt(0x8000, b'local'), struct.pack('<HH', 0, 8) + bytes(8), opt(2, bytes(4)) * 300]
    for number, options in enumerate(bad):
        out = shb() + idb() + b''.join(epb(*p, options=options) for p in packets)
        found, path = one(check, f'options{number}', out, {'packets': 20, 'octets': 20 * 214}, '.pcapng')
        if found and found['warnings']:
            check.note((number, found['warnings'], len(tshark(path).splitlines())))


@case
def several_sections(check):
    packets = audio(60)
    out = b''
    for n, order in enumerate('<><'):
        out += shb(order) + idb(order=order) + idb(101, order=order) + b''.join(epb(*p, order=order) for p in packets[20 * n:20 * n + 20])
    found, _ = one(check, 'sections', out, {'packets': 60, 'flows': [rtp_flow(60)]}, '.pcapng')
    check.eq('in_file', [i['in_file'] for i in found['interfaces']], [20, 0, 20, 0, 20, 0])


@case
def second_section_of_a_later_version(check):
    packets = audio(20)
    out = shb() + idb() + b''.join(epb(*p) for p in packets[:10]) + shb(major=2) + idb() + b''.join(epb(*p) for p in packets[10:])
    found, path = one(check, 'version', out, {}, '.pcapng')
    check.eq('packets, whole', (found['packets'], found['complete']), (10, False))
    check.note(found['warnings'])
    check.note('tshark: %d' % len(tshark(path).splitlines()))


@case
def times_at_the_edge(check):
    # 2106 and later in a classic file, and times that 64 bits do not hold in pcapng.
    data = eth(ip4(udp(b'x')))
    found, _ = one(check, 'edge', shb() + idb(res=9) + epb(2**63 - 1, data) + epb(2**63, data) + epb(2**64 - 1, data), {'packets': 3}, '.pcapng')
    check.eq('unstamped', found['unstamped'], 2)
    found, _ = one(check, 'edge_s', shb() + idb(res=0) + epb(4_294_967_296, data) + epb(2**40, data), {'packets': 2}, '.pcapng')
    found, _ = one(check, 'edge_neg', shb() + idb(res=9, offset=-2 * T0 // 10**9) + b''.join(epb(*p) for p in audio(20)), {'flows': [rtp_flow()]}, '.pcapng')


# --- RTP -------------------------------------------------------------------------------------------

def interarrival(packets, hz):
    """J of RFC 3550 in ms, by (arrival ns, timestamp)."""
    j, before = 0.0, None
    for ns, ts in packets:
        transit = ns - ts * 1e9 / hz
        if before is not None:
            j += (abs(transit - before) - j) / 16
        before = transit
    return j / 1e6


@case
def wraps_twice(check):
    # 140,000 packets; one lost each 1,000, those on each wrap among them, one copied each 999, one late each 997.
    order, lost, copies, late = [], 0, 0, 0
    n = 0
    while n < 140_000:
        number = 60_000 + n
        if n % 1000 == 500 or number % 65536 == 0:
            lost += 1
        elif n % 997 == 5 and (n + 1) % 1000 != 500 and (number + 1) % 65536 and (n + 1) % 999 != 7:
            order += [n + 1, n]
            late += 1
            n += 1
        else:
            order.append(n)
            if n % 999 == 7:
                order.append(n)
                copies += 1
        n += 1
    packets = [(T0 + k * MS, eth(ip4(udp(rtp(60_000 + n, 8 * n, media=b''))))) for k, n in enumerate(order)]
    found, _ = one(check, 'wraps', pcap(packets), {})
    seq = found['flows'][0]['sequence']
    check.eq('lost, duplicate, reordered', (len(found['flows']), seq['lost'], seq['duplicate'], seq['reordered']), (1, lost, copies, late))
    check.eq('expected', seq['expected'], 140_000)


@case
def timestamps_wrap(check):
    found, _ = one(check, 'ts_wrap', pcap(audio(500, ts=2**32 - 160 * 250)), {'flows': [rtp_flow(500)]})
    check.eq('PDV', pdv_ms(found['flows'][0]), 0.0)


@case
def figures_by_hand(check):
    late = [((n * 7919) % 13) * MS // 2 for n in range(200)]
    packets = [(T0 + n * 20 * MS + late[n], n) for n in range(200) if n not in (50, 51, 120)]
    file = pcap([(ns, eth(ip4(udp(rtp(n, 160 * n))))) for ns, n in packets])
    found, path = one(check, 'hand', file, {'flows': [rtp_flow(197, lost=3)]})
    flow = found['flows'][0]
    check.eq('PDV', pdv_ms(flow), 6.0)
    check.eq('J', round(flow['interarrival']['last_ns'] / 1e6, 4), round(interarrival([(ns, 160 * n) for ns, n in packets], 8000), 4))
    check.note(tshark(path, '-q', '-d', 'udp.port==6000,rtp', '-z', 'rtp,streams').splitlines()[2:3])


@case
def stray_packet(check):
    # One packet with a number far ahead: nothing is lost.
    packets = audio(100) + [(T0 + 1995 * MS, eth(ip4(udp(rtp(21_000, 12)))))] + [(T0 + (100 + n) * 20 * MS, f) for n, (_, f) in enumerate(audio(100, 1100, ts=16_000))]
    found, _ = one(check, 'stray', pcap(packets), {'flows': [rtp_flow(201)]})
    seq = found['flows'][0]['sequence']
    check.eq('expected, reordered', (seq['expected'], seq['reordered']), (200, 0))
    check.eq('RTP lost', found['flows'][0]['rtp']['sequence']['lost'], 0)
    found, _ = one(check, 'stray_last', pcap(packets[:101]), {})
    check.note(flows(found))


@case
def telephone_events(check):
    # Every key lasts 15 packets of 20 ms, which bear the time of its beginning (RFC 4733, section 2.5.1.2).
    packets, arrivals = [], []
    for n in range(400):
        key = n % 100 >= 80 and n % 100 < 95
        begun = n - (n % 100 - 80) if key else n
        body = rtp(n, 160 * begun, pt=101, marker=n % 100 == 80, media=bytes(4)) if key else rtp(n, 160 * n)
        packets.append((T0 + n * 20 * MS, eth(ip4(udp(body)))))
    found, path = one(check, 'dtmf', pcap(packets), {'flows': [rtp_flow(400)]})
    check.eq('PDV', pdv_ms(found['flows'][0]), 0.0)
    check.note('J %.3f ms' % (found['flows'][0]['interarrival']['last_ns'] / 1e6))
    check.note(tshark(path, '-q', '-d', 'udp.port==6000,rtp', '-z', 'rtp,streams').splitlines()[2:3])


@case
def events_beside_audio(check):
    # Audio goes on while a key is held: event packets stand between those of audio, and bear an older time.
    packets, seq = [], 0
    for n in range(200):
        packets.append((T0 + n * 20 * MS, eth(ip4(udp(rtp(seq, 160 * n)))))); seq += 1
        if 80 <= n < 95:
            packets.append((T0 + n * 20 * MS + 1000, eth(ip4(udp(rtp(seq, 160 * 80, pt=101, media=bytes(4))))))); seq += 1
    found, _ = one(check, 'dtmf_beside', pcap(packets), {'flows': [rtp_flow(215)]})
    check.eq('PDV below 1 ms', pdv_ms(found['flows'][0]) < 1, True)


@case
def silence(check):
    # Comfort noise each 200 ms in pauses; the marker begins each talkspurt.
    packets, seq = [], 0
    for n in range(600):
        talk = n // 100 % 2 == 0
        if talk or n % 10 == 0:
            packets.append((T0 + n * 20 * MS, eth(ip4(udp(rtp(seq, 160 * n, pt=0 if talk else 13, marker=talk and n % 100 == 0)))))); seq += 1
    found, _ = one(check, 'silence', pcap(packets), {'flows': [rtp_flow(seq)]})
    check.eq('PDV', pdv_ms(found['flows'][0]), 0.0)


@case
def clock_rate_changes(check):
    # The codec changes from 8 kHz to 48 kHz and back: timestamps go on from where they were.
    packets, ts = [], 0
    for n in range(600):
        wide = 200 <= n < 400
        packets.append((T0 + n * 20 * MS, eth(ip4(udp(rtp(n, ts, pt=111 if wide else 0))))))
        ts += 960 if wide else 160
    found, path = one(check, 'rates', pcap(packets), {'flows': [rtp_flow(600)]})
    check.eq('PDV', pdv_ms(found['flows'][0]), 0.0)
    check.note(found['flows'][0]['rtp']['notes'])
    check.note(tshark(path, '-q', '-d', 'udp.port==6000,rtp', '-z', 'rtp,streams').splitlines()[2:3])


@case
def video_of_a_dynamic_type(check):
    # H.264: frames of 10 packets each 40 ms, sent within 9 ms. The network adds nothing.
    packets = [(T0 + f * 40 * MS + k * MS, eth(ip4(udp(rtp(10 * f + k, 3600 * f, pt=96, marker=k == 9, media=bytes(1000)))))) for f in range(100) for k in range(10)]
    found, _ = one(check, 'video', pcap(packets), {'flows': [rtp_flow(1000)]})
    check.eq('PDV', pdv_ms(found['flows'][0]), 0.0)
    check.eq('clock', found['flows'][0]['media_clock']['hz'], 90_000)


@case
def one_source_from_two_ports(check):
    packets = []
    for n in range(100):
        packets.append((T0 + n * 20 * MS, eth(ip4(udp(rtp(n, 160 * n), sport=5000)))))
        packets.append((T0 + n * 20 * MS + 5, eth(ip4(udp(rtp(40000 + n, 99 + 160 * n), sport=5002)))))
    found, _ = one(check, 'ports', pcap(packets), {'flows': [rtp_flow(100), rtp_flow(100)]})
    check.eq('pairs', found['pairs'], [])


@case
def two_senders_of_one_source(check):
    # A collision (RFC 3550, section 8.2): both send to the same port from the same port.
    packets = []
    for n in range(100):
        packets.append((T0 + n * 20 * MS, eth(ip4(udp(rtp(n, 160 * n))))))
        packets.append((T0 + n * 20 * MS + 5, eth(ip4(udp(rtp(40000 + n, 99 + 160 * n))))))
    found, _ = one(check, 'collision', pcap(packets), {})
    check.eq('lost', sum(f[5] for f in flows(found)), 0)
    check.note(flows(found))


@case
def timestamps_like_wall_clocks(check):
    # Timestamps of RTP that pass the seconds of NTP's time and of PTP's: they are no test packets.
    for name, now in (('ntp', T0 // 10**9 + 2_208_988_800), ('ptp', T0 // 10**9)):
        for media in (bytes(160), b'\xff' * 160):
            packets = audio(200, ts=now - 160 * 100, media=media)
            one(check, 'like_' + name, pcap(packets), {'flows': [rtp_flow(200)]})


@case
def bundle(check):
    # WebRTC: STUN and DTLS first, then two streams in turns on the same ports.
    packets = [eth(ip4(udp(b'\0\x01\0\0\x21\x12\xa4\x42' + bytes(12)))) for _ in range(6)]
    packets += [eth(ip4(udp(b'\x16\xfe\xfd' + bytes(60)))) for _ in range(6)]
    for n in range(200):
        packets.append(eth(ip4(udp(rtp(n, 160 * n, ssrc=1)))))
        packets.append(eth(ip4(udp(rtp(30000 + n, 960 * n, ssrc=2, pt=111)))))
    found, _ = one(check, 'bundle', pcap([(T0 + n * 10 * MS, f) for n, f in enumerate(packets)]), {})
    kinds = [(f[0], f[1]) for f in flows(found)]
    check.eq('both streams found', ('rtp', 1) in kinds and ('rtp', 2) in kinds, True)
    check.note(flows(found))


@case
def rtcp_on_the_same_port(check):
    packets = audio(100)
    report = eth(ip4(udp(struct.pack('>BBHI', 0x81, 200, 6, 7) + bytes(40))))
    packets = sorted(packets + [(T0 + n * 400 * MS + 1, report) for n in range(5)])
    found, _ = one(check, 'rtcp', pcap(packets), {})
    check.eq('RTP', flows(found)[0], rtp_flow(100))


@case
def low_dynamic_type(check):
    # Browsers take 35 to 63 where 96 to 127 are used up (RFC 3551, section 3).
    one(check, 'low_type', pcap(audio(100, pt=45)), {'flows': [rtp_flow(100)]})


@case
def train(check):
    # What a capture sees of eight datagrams that the kernel cuts apart later: one of eight times the length.
    packets = []
    for n in range(50):
        whole = b''.join(rtp(8 * n + k, 160 * (8 * n + k)) for k in range(8))
        packets.append((T0 + n * 160 * MS, eth(ip4(udp(whole)))))
    found, _ = one(check, 'train', pcap(packets), {})
    check.note((flows(found), found['warnings']))
    check.eq('lost', flows(found)[0][5], 0)


@case
def csrc_extension_padding(check):
    head = lambda n: struct.pack('>BBHII', 0xb2, 0, n, 160 * n, 7) + bytes(8) + b'\xbe\xde\0\x02' + bytes(8) + bytes(156) + b'\0\0\0\x04'
    one(check, 'header', pcap([(T0 + n * 20 * MS, eth(ip4(udp(head(n))))) for n in range(50)]), {'flows': [rtp_flow(50)]})


os.makedirs(FOLDER, exist_ok=True)
bad = 0
for function in CASES:
    name = function.__name__
    if ONLY and name not in ONLY:
        continue
    check = Check()
    try:
        function(check)
    except Exception as error:
        check.wrong.append(f'{type(error).__name__}: {error}')
    bad += bool(check.wrong)
    print(f'{name:34}', 'right' if not check.wrong else 'WRONG: ' + '; '.join(check.wrong), '   # ' + ' | '.join(check.notes) if check.notes else '')
print(f'{len(CASES) if not ONLY else len(ONLY)} cases, {bad} wrong')
