"""Captures made byte by byte, each with an account of its own; `quaver analyze --json` beside it.

python3 offline.py QUAVER FOLDER [CASE...]      a line a case: right, or what differs
"""
import gzip, json, os, random, struct, subprocess, sys, time

QUAVER, FOLDER, ONLY = sys.argv[1], sys.argv[2], sys.argv[3:]
T0, MS, CASES = 1_790_000_000_000_000_000, 1_000_000, []


def case(function):
    CASES.append(function)
    return function


def udp(payload, sport=5000, dport=6000):
    return struct.pack('>HHHH', sport, dport, (8 + len(payload)) & 0xffff, 0) + payload


def ip4(inner, proto=17, src=1, total=None):
    total = 20 + len(inner) if total is None else total
    return struct.pack('>BBHHHBBHII', 0x45, 0, total, 0, 0, 64, proto, 0, 0x0a000000 + src, 0x0a0000ff) + inner


def ip6(inner, nxt=17, length=None):
    length = len(inner) if length is None else length
    return struct.pack('>IHBB', 6 << 28, length, nxt, 64) + (1).to_bytes(16, 'big') + (2).to_bytes(16, 'big') + inner


def eth(inner, kind=0x0800):
    return bytes(12) + struct.pack('>H', kind) + inner


def rtp(seq, ts, ssrc=7, pt=0, media=bytes(160), marker=0):
    return struct.pack('>BBHII', 0x80, pt | marker << 7, seq & 0xffff, int(ts) & 0xffffffff, ssrc) + media


def frame(*args, **more):
    return eth(ip4(udp(rtp(*args, **more))))


def pcap(packets, link=1, snap=262144):
    out = [struct.pack('<IHHiIII', 0xa1b23c4d, 2, 4, 0, 0, snap, link)]
    for ns, data in packets:
        out.append(struct.pack('<IIII', ns // 10**9, ns % 10**9, min(len(data), snap), len(data)) + data[:snap])
    return b''.join(out)


def block(kind, body):
    body += bytes(-len(body) % 4)
    return struct.pack('<II', kind, 12 + len(body)) + body + struct.pack('<I', 12 + len(body))


SHB = block(0x0a0d0d0a, struct.pack('<IHHq', 0x1a2b3c4d, 1, 0, -1))


def idb(link, res=9):
    return block(1, struct.pack('<HHI', link, 0, 0) + struct.pack('<HHBxxx', 9, 1, res) + struct.pack('<HH', 0, 0))


def epb(units, data, iface=0, options=b''):
    body = struct.pack('<IIIII', iface, units >> 32, units & 0xffffffff, len(data), len(data)) + data
    return block(6, body + bytes(-len(data) % 4) + options)


def snoop(packets):
    out = b'snoop\0\0\0' + struct.pack('>II', 2, 4)
    for ns, data in packets:
        length = 24 + len(data) + -len(data) % 4
        out += struct.pack('>IIIIII', len(data), len(data), length, 0, ns // 10**9, ns % 10**9 // 1000) + data + bytes(-len(data) % 4)
    return out


class Check:
    def __init__(self):
        self.wrong, self.notes = [], []

    def eq(self, what, got, want):
        if got != want:
            self.wrong.append(f'{what}: {got}, expected {want}')

    def note(self, text):
        self.notes.append(str(text))


def analyze(check, name, octets, *args, unless=None):
    path = os.path.join(FOLDER, name)
    with open(path, 'wb') as file:
        file.write(octets)
    done = subprocess.run([QUAVER, 'analyze', path, '--json', *args], capture_output=True, text=True, timeout=120)
    try:
        return json.loads(done.stdout)
    except ValueError:
        if unless and unless in done.stderr:
            return None
        check.wrong.append(f'status {done.returncode}: {done.stderr.strip()[-300:]}')
        return None


def lost(flow):
    return (flow['sequence'] or {}).get('lost')


def told(found):
    return [(f['kind'], f['id'], f['restart'], f['packets'], lost(f)) for f in found['flows']]


def pdv_ms(flow):
    return round(flow['delay']['figures']['max_pdv_ns'] / 1e6, 2) if flow['delay'] else None


def j_ms(flow):
    return round(flow['interarrival']['max_ns'] / 1e6, 3) if flow['interarrival'] else None


def tshark(name, *args):
    return subprocess.run(['tshark', '-n', '-r', os.path.join(FOLDER, name), *args], capture_output=True, text=True).stdout


# --- two senders of one source -----------------------------------------------------------------------

def senders(firsts, count=100, apart=5, stamps=(0, 99_000_000, 2_500_000_000), steps=(1, 1, 1)):
    packets = []
    for n in range(count):
        for k, first in enumerate(firsts):
            packets.append((T0 + n * 20 * MS + k * apart, frame(first + n, stamps[k] + 160 * n)))
    return packets


def collision(name, *args, **more):
    def run(check):
        packets = senders(*args, **more)
        found = analyze(check, name + '.pcap', pcap(packets))
        if found:
            check.eq('lost', sum(f[4] or 0 for f in told(found)), 0)
            check.eq('packets', sum(f[3] for f in told(found)), len(packets))
            check.note((told(found), found['warnings']))
    run.__name__ = name
    CASES.append(run)


collision('senders_far_apart', (0, 40_000))
collision('senders_20000_apart', (100, 20_100))
collision('senders_500_apart', (1000, 1500))
collision('senders_2900_apart', (1000, 3900))
collision('senders_150_apart', (1000, 1150))
collision('senders_over_a_wrap', (65_500, 30_000))
collision('three_senders', (0, 20_000, 40_000))


@case
def senders_with_loss(check):
    # Each loses numbers of its own: 3 and 5.
    packets = senders((0, 40_000), 200)
    gone = {2 * n for n in (50, 51, 120)} | {2 * n + 1 for n in (7, 8, 9, 90, 150)}
    found = analyze(check, 'with_loss.pcap', pcap([p for at, p in enumerate(packets) if at not in gone]))
    check.eq('lost', sorted(f[4] for f in told(found)), [3, 5])


@case
def senders_in_bursts(check):
    # Ten packets of one, then ten of the other.
    packets = []
    for n in range(20):
        for k, (first, ts) in enumerate(((0, 0), (40_000, 700_000_000))):
            packets += [(T0 + n * 200 * MS + k * 100 * MS + j * MS, frame(first + 10 * n + j, ts + 160 * (10 * n + j))) for j in range(10)]
    found = analyze(check, 'bursts.pcap', pcap(packets))
    check.eq('flows', told(found), [('rtp', 7, 0, 200, 0), ('rtp', 7, 1, 200, 0)])


@case
def stray_among_the_first(check):
    for place in (0, 1, 3, 7):
        packets = [(T0 + n * 20 * MS, frame(1000 + n, 160 * n)) for n in range(100)]
        packets.insert(place, (T0 + place * 20 * MS - 1, frame(21_000, 12)))
        found = analyze(check, f'stray_{place}.pcap', pcap(packets))
        check.eq(f'lost, at {place}', sum(f[4] or 0 for f in told(found)), 0)


@case
def stray_500_ahead(check):
    packets = [(T0 + n * 20 * MS, frame(1000 + n, 160 * n)) for n in range(200)]
    packets.insert(100, (T0 + 1999 * MS, frame(1600, 3_000_000_000)))
    found = analyze(check, 'stray_near.pcap', pcap(packets))
    check.eq('flows', told(found), [('rtp', 7, 0, 201, 0)])


@case
def restart_among_the_first(check):
    packets = [(T0 + n * 20 * MS, frame((5000 if n < 4 else 60_000) + n, 160 * n + (0 if n < 4 else 10**9))) for n in range(100)]
    found = analyze(check, 'restart_first.pcap', pcap(packets))
    check.eq('flows', told(found), [('rtp', 7, 1, 96, 0), ('rtp', 7, 0, 4, 0)])


@case
def outages_stay_losses(check):
    for gap in (50, 101, 200, 2_000, 10_000):
        packets = [(T0 + (n + (gap if n >= 100 else 0)) * 20 * MS, frame(n + (gap if n >= 100 else 0), 160 * (n + (gap if n >= 100 else 0)))) for n in range(200)]
        found = analyze(check, f'outage_{gap}.pcap', pcap(packets))
        check.eq(f'{gap}', told(found), [('rtp', 7, 0, 200, gap)])


@case
def outage_of_video(check):
    # Timestamps of frames of unlike lengths; 300 packets lost in the middle of one.
    rng, packets, n = random.Random(3), [], 0
    for f in range(100):
        for k in range(rng.choice((3, 4, 60, 5, 12))):
            if not 400 <= n < 700:
                packets.append((T0 + f * 40 * MS + k * 100_000, frame(n, 3600 * f, pt=96, media=bytes(900))))
            n += 1
    found = analyze(check, 'video_outage.pcap', pcap(packets))
    check.eq('flows', told(found), [('rtp', 7, 0, len(packets), 300)])


# --- rates of the media clock ---------------------------------------------------------------------------

def course(parts, late=lambda n: 0):
    """Of (packets, payload type, Hz, ms each): timestamps go on from where they were."""
    out, n, ts, at = [], 0, 0, 0
    for count, pt, hz, ms in parts:
        for _ in range(count):
            out.append((T0 + at * MS + late(n), frame(n, ts, pt=pt)))
            n, ts, at = n + 1, ts + hz * ms // 1000, at + ms
    return out


def rates(name, parts, late=lambda n: 0, pdv=0.0, most_j=None):
    def run(check):
        packets = course(parts, late)
        found = analyze(check, name + '.pcap', pcap(packets))
        if not found:
            return
        flow = found['flows'][0]
        check.eq('flows', told(found), [('rtp', 7, 0, len(packets), 0)])
        check.eq('PDV', pdv_ms(flow), pdv)
        if most_j is not None and j_ms(flow) > most_j:
            check.wrong.append(f'J {j_ms(flow)} ms, expected {most_j} at most')
        check.note((flow['media_clock'], j_ms(flow), flow['rtp']['clock'], flow['rtp']['interarrival']['max_ns'] / 1e6, flow['rtp']['notes']))
        check.note(tshark(name + '.pcap', '-q', '-d', 'udp.port==6000,rtp', '-z', 'rtp,streams').splitlines()[2:3])
    run.__name__ = name
    CASES.append(run)


rates('rate_8_48_8', [(200, 0, 8000, 20), (200, 111, 48000, 20), (200, 0, 8000, 20)], most_j=0.001)
rates('rate_48_8', [(300, 111, 48000, 20), (300, 0, 8000, 20)], most_j=0.001)
rates('rate_8_16', [(300, 0, 8000, 20), (300, 97, 16000, 20)], most_j=0.001)
rates('rate_8_90', [(300, 8, 8000, 20), (300, 96, 90000, 40)], most_j=0.001)
rates('rate_8_48_late', [(200, 0, 8000, 20), (200, 111, 48000, 20)], late=lambda n: 7 * MS if n in (100, 300) else 0, pdv=7.0)
rates('same_rate_other_type', [(200, 0, 8000, 20), (200, 97, 8000, 20)], most_j=0.001)
rates('short_excursion', [(200, 0, 8000, 20), (4, 97, 8000, 20), (200, 0, 8000, 20)], most_j=0.001)
rates('opus_with_jitter', [(1000, 111, 48000, 20)], late=lambda n: (n * 7919 % 13) * MS // 2, pdv=6.0)


@case
def two_video_rates(check):
    # H.264 by 90 kHz, and from frame 100 on another type of the same rate; then audio.
    packets, n = [], 0
    for f in range(200):
        for k in range(8):
            packets.append((T0 + f * 40 * MS + k * MS, frame(n, 3600 * f, pt=96 if f < 100 else 98, marker=k == 7, media=bytes(900))))
            n += 1
    found = analyze(check, 'video_types.pcap', pcap(packets))
    flow = found['flows'][0]
    check.eq('flows', told(found), [('rtp', 7, 0, 1600, 0)])
    check.eq('PDV, Hz', (pdv_ms(flow), flow['media_clock']['hz']), (0.0, 90_000))
    check.note((flow['media_clock'], flow['rtp']['notes']))


# --- trains that the snap length cut ------------------------------------------------------------------------

def trains(counts, each=172, snap=96, gone=()):
    packets, n = [], 0
    for at, count in enumerate(counts):
        whole = b''.join(rtp(n + k, 160 * (n + k), media=bytes([0x55]) * (each - 12)) for k in range(count))
        if at not in gone:
            packets.append((T0 + n * 20 * MS, eth(ip4(udp(whole)))))
        n += count
    return pcap(packets, snap=snap), n


@case
def trains_cut(check):
    for snap in (60, 96, 220, 392, 400, 1000, 1400):
        octets, n = trains([8] * 50, snap=snap)
        found = analyze(check, f'train_{snap}.pcap', octets)
        check.eq(f'lost at {snap}', lost(found['flows'][0]) or 0, 0)
        check.note((snap, told(found), found['flows'][0]['rtp'] and found['flows'][0]['rtp']['sequence']['lost'], found['warnings']))


@case
def trains_of_unlike_lengths_cut(check):
    octets, n = trains([1] * 20 + [3, 1, 2, 1, 1, 5] * 10)
    found = analyze(check, 'gro.pcap', octets)
    check.eq('lost', lost(found['flows'][0]) or 0, 0)
    check.note((told(found), found['warnings']))


@case
def single_datagrams_cut(check):
    # Losses of ordinary datagrams stay losses, however little was kept.
    gone = {30, 31, 50, 77}
    octets, n = trains([1] * 100, gone=gone)
    found = analyze(check, 'singles.pcap', octets)
    check.eq('flows', told(found), [('rtp', 7, 0, 96, 4)])
    rng, packets = random.Random(5), []
    for k in range(400):
        if k % 37 != 5:
            packets.append((T0 + k * 20 * MS, frame(k, 960 * k, pt=111, media=bytes(rng.randint(60, 160)))))
    found = analyze(check, 'vbr.pcap', pcap(packets, snap=60))
    check.eq('unlike lengths', told(found), [('rtp', 7, 0, len(packets), 400 - len(packets))])


# --- headers ---------------------------------------------------------------------------------------------------

def all_packets(name, wrap, want, link=1, kind='rtp'):
    def run(check):
        packets = [(T0 + n * 20 * MS, wrap(udp(rtp(n, 160 * n)))) for n in range(20)]
        found = analyze(check, name + '.pcap', pcap(packets, link))
        if found:
            check.eq('flows', told(found), want)
            check.eq('packets', found['packets'], 20)
            check.note(found['warnings'])
    run.__name__ = name
    CASES.append(run)


RIGHT = [('rtp', 7, 0, 20, 0)]
pad = b'\x01\x04' + bytes(4)
all_packets('ip6_ten_headers', lambda d: eth(ip6(b''.join(bytes([60, 0]) + pad for _ in range(9)) + bytes([17, 0]) + pad + d, 60), 0x86dd), RIGHT)
all_packets('ip6_mobility_hip_shim', lambda d: eth(ip6(bytes([140, 0]) + bytes(6) + bytes([17, 0]) + bytes(6) + d, 135), 0x86dd), [('other', None, 0, 20, None)])
all_packets('ip6_no_next', lambda d: eth(ip6(d, 59), 0x86dd), [('other', None, 0, 20, None)])
all_packets('ip6_esp', lambda d: eth(ip6(bytes(8) + d, 50), 0x86dd), [('other', None, 0, 20, None)])
all_packets('ip6_atomic_fragment', lambda d: eth(ip6(bytes([17, 0, 0, 0, 0, 0, 0, 9]) + d, 44), 0x86dd), RIGHT)
all_packets('ip6_jumbogram', lambda d: eth(ip6(bytes([17, 0, 0xc2, 4]) + struct.pack('>I', 8 + len(d)) + d, 0, length=0), 0x86dd), RIGHT)
all_packets('ip6_length_zero_tso', lambda d: eth(ip6(d, length=0), 0x86dd), RIGHT)
all_packets('ip4_length_zero_tso', lambda d: eth(ip4(d, total=0)), RIGHT)
all_packets('udplite', lambda d: eth(ip4(d[:4] + struct.pack('>H', 8) + d[6:], 136)), [('other', None, 0, 20, None)])
all_packets('vlan_priority_tag', lambda d: bytes(12) + b'\x81\0\xe0\0\x08\0' + ip4(d), RIGHT)
all_packets('macsec_unknown', lambda d: bytes(12) + b'\x88\xe5' + bytes(14) + ip4(d), [])
all_packets('loopback_9000', lambda d: eth(ip4(d)), RIGHT)
all_packets('erspan_ii', lambda d: eth(ip4(b'\x10\0\x88\xbe\0\0\0\1' + bytes(8) + eth(ip4(d)), 47)), [('other', None, 0, 20, None)])
all_packets('gtp_u', lambda d: eth(ip4(udp(b'\x30\xff' + struct.pack('>HI', 28 + len(d), 5) + ip4(d), 2152, 2152))), [('other', None, 0, 20, None)])


@case
def jumbo_frames(check):
    packets = [(T0 + n * MS, frame(n, 8 * n, media=bytes(size))) for n, size in enumerate([8900, 9600, 16_000, 65_400] * 10)]
    found = analyze(check, 'jumbo.pcap', pcap(packets))
    check.eq('flows', told(found), [('rtp', 7, 0, 40, 0)])
    check.eq('octets', found['octets'], sum(len(f) for _, f in packets))


@case
def links_in_one_file(check):
    ips = lambda n, i: ip4(udp(rtp(n, 160 * n, ssrc=i), dport=6000 + 2 * i))
    wraps = [(1, lambda d: eth(d)), (101, lambda d: d), (113, lambda d: bytes(14) + b'\x08\0' + d), (276, lambda d: b'\x08\0' + bytes(18) + d),
             (9, lambda d: b'\xff\x03\0\x21' + d), (105, lambda d: bytes(24) + d), (127, lambda d: bytes(8) + d), (189, lambda d: bytes(64)), (50, lambda d: b'\0\x21' + d)]
    out = SHB + b''.join(idb(link) for link, _ in wraps)
    for n in range(20):
        out += b''.join(epb(T0 + n * 20 * MS, wrap(ips(n, i)), i) for i, (_, wrap) in enumerate(wraps))
    found = analyze(check, 'links.pcapng', out)
    check.eq('flows', sorted(f[1] for f in told(found)), [0, 1, 2, 3, 4, 8])
    check.eq('packets, without IP', (found['packets'], found['without_network']['packets']), (180, 60))
    check.note(found['warnings'])


# --- files that end in the middle ----------------------------------------------------------------------------------

def audio(count):
    return [(T0 + n * 20 * MS, frame(n, 160 * n)) for n in range(count)]


@case
def cut_anywhere(check):
    # What a cut file holds whole is counted, and it is said that it is cut.
    zst = lambda octets: subprocess.run(['zstd', '-q', '-c'], input=octets, capture_output=True).stdout
    plain = {'pcap': pcap(audio(40)), 'snoop': snoop(audio(40)), 'pcapng': SHB + idb(1) + b''.join(epb(*p) for p in audio(40))}
    rng = random.Random(1)
    for kind, octets in plain.items():
        head, each = {'pcap': (24, 16 + 214), 'snoop': (16, 24 + 216), 'pcapng': (len(SHB + idb(1)), 32 + 216)}[kind]
        for way, pack, unpack in (('', lambda o: o, None), ('.gz', lambda o: gzip.compress(o, 0), 'gzip'), ('.zst', zst, 'zstd')):
            whole = pack(octets)
            if not whole:
                check.note('no zstd'); continue
            for _ in range(8):
                at = rng.randint(len(whole) // 4, len(whole) - 1)
                name = f'cut.{kind}{way}'
                # Of zstd nothing can be read before the first block is whole.
                found = analyze(check, name, whole[:at], unless='compressed data are cut' if way == '.zst' else None)
                if not found:
                    continue
                if way == '':
                    check.eq(f'{name} at {at}', (found['packets'], found['complete']), ((at - head) // each, (at - head) % each == 0))
                else:
                    check.eq(f'{name} at {at}: complete', found['complete'], False)
                    counted = tshark(name, '-T', 'fields', '-e', 'frame.number').split()
                    if found['packets'] < len(counted):
                        check.wrong.append(f'{name} at {at}: {found["packets"]}, tshark {len(counted)}')


@case
def damaged_in_the_middle(check):
    for kind, octets in (('gz', gzip.compress(pcap(audio(2000)))), ('zst', subprocess.run(['zstd', '-q', '-c'], input=pcap(audio(2000)), capture_output=True).stdout)):
        if octets:
            broken = bytearray(octets)
            broken[len(broken) // 2] ^= 0xff
            found = analyze(check, f'damaged.pcap.{kind}', bytes(broken))
            check.eq(kind, found and found['complete'], False)
            check.note(found and (found['packets'], found['warnings']))


@case
def two_files_in_one_gz(check):
    # Two captures one behind the other: pcapng goes on, pcap cannot.
    ng = SHB + idb(1) + b''.join(epb(*p) for p in audio(20))
    found = analyze(check, 'two.pcapng.gz', gzip.compress(ng) + gzip.compress(ng))
    check.eq('packets', found['packets'], 40)
    found = analyze(check, 'trailing.pcap.gz', gzip.compress(pcap(audio(20))) + b'trailing garbage')
    check.note(found and (found['packets'], found['complete'], found['warnings']))


@case
def empty_and_tiny(check):
    for name, octets in (('empty.pcap', pcap([])), ('empty.pcapng', SHB), ('empty.snoop', snoop([])), ('zero.pcap', b''), ('zero.pcap.gz', gzip.compress(b''))):
        path = os.path.join(FOLDER, name)
        open(path, 'wb').write(octets)
        done = subprocess.run([QUAVER, 'analyze', path], capture_output=True, text=True)
        check.note((name, done.returncode, (done.stderr or done.stdout).strip().splitlines()[-1:]))
        if 'panicked' in done.stderr:
            check.wrong.append(name)


@case
def two_million_flows(check):
    # Each with one packet: no more memory than for the limit, and all are counted.
    count = 600_000
    def packets():
        yield struct.pack('<IHHiIII', 0xa1b23c4d, 2, 4, 0, 0, 262144, 1)
        for n in range(count):
            data = eth(struct.pack('>BBHHHBBHII', 0x45, 0, 36, 0, 0, 64, 17, 0, n, 0x0a0000ff) + struct.pack('>HHHH', 1, 2, 16, 0) + bytes(8))
            ns = T0 + n * 1000
            yield struct.pack('<IIII', ns // 10**9, ns % 10**9, len(data), len(data)) + data
    path = os.path.join(FOLDER, 'flows.pcap')
    with open(path, 'wb') as file:
        file.writelines(packets())
    done = subprocess.run(['/usr/bin/time', '-f', '%M', QUAVER, 'analyze', path, '--json'], capture_output=True, text=True)
    found = json.loads(done.stdout)
    there = sum(f['packets'] for f in found['flows']) + found['beyond']['packets'] + found['without_network']['packets'] + found['departed']['packets']
    check.eq('packets', (found['packets'], there), (count, count))
    check.note((len(found['flows']), found['beyond'], found['warnings'], 'kB', done.stderr.split()[-1:]))
    os.unlink(path)


os.makedirs(FOLDER, exist_ok=True)
bad = 0
for function in CASES:
    if ONLY and function.__name__ not in ONLY:
        continue
    check = Check()
    try:
        function(check)
    except Exception as error:
        check.wrong.append(f'{type(error).__name__}: {error}')
    bad += bool(check.wrong)
    print(f'{function.__name__:28}', 'right' if not check.wrong else 'WRONG: ' + '; '.join(check.wrong), '   # ' + ' | '.join(check.notes) if check.notes else '', flush=True)
print(f'{len(CASES)} cases, {bad} wrong')
