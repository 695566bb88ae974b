"""Captures of traffic of its own between two network namespaces, beside tcpdump; a line a case.

python3 live.py QUAVER FOLDER [CASE...]      as root
"""
import json, os, signal, socket, struct, subprocess, sys, time

QUAVER, FOLDER, ONLY = sys.argv[1], sys.argv[2], sys.argv[3:]
A, B = 'cap-a', 'cap-b'
CASES = []


def case(function):
    CASES.append(function)
    return function


def sh(words, check=True):
    done = subprocess.run(words, shell=True, capture_output=True, text=True)
    if check and done.returncode:
        raise RuntimeError(f'{words}: {done.stderr.strip()}')
    return done.stdout


def lab():
    for name in (A, B):
        sh(f'ip netns add {name}; ip -n {name} link set lo up')
    sh(f'ip -n {A} link add capv0 type veth peer name capv1 netns {B}')
    sh(f'ip -n {A} addr add 10.9.0.1/24 dev capv0; ip -n {A} link set capv0 up')
    sh(f'ip -n {B} addr add 10.9.0.2/24 dev capv1; ip -n {B} link set capv1 up')
    sh(f'ip netns exec {B} sysctl -qw net.ipv6.conf.capv1.disable_ipv6=1; ip netns exec {A} sysctl -qw net.ipv6.conf.capv0.disable_ipv6=1')


def clear():
    for name in (A, B):
        sh(f'ip netns del {name}', False)


SEND = r'''
import socket, sys, time
which, count = sys.argv[1], int(sys.argv[2])
raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
raw.bind((sys.argv[3], 0))
mac = bytes.fromhex(sys.argv[4].replace(':', ''))
sys.path.insert(0, '/'); exec(open(sys.argv[5]).read())
for n in range(count):
    for frame in frames(which, n, mac):
        raw.send(frame)
    time.sleep(0.0005)
'''
FRAMES = r'''
import struct
def ip4(inner, proto=17, src=(10,9,0,1), dst=(10,9,0,2), ident=0, flags=0):
    head = struct.pack('>BBHHHBBH', 0x45, 0, 20 + len(inner), ident, flags, 64, proto, 0) + bytes(src) + bytes(dst)
    s = sum(struct.unpack('>10H', head)); s = (s & 0xffff) + (s >> 16); s = ~(s + (s >> 16)) & 0xffff
    return head[:10] + struct.pack('>H', s) + head[12:] + inner
def udp(p, sport=5000, dport=6000): return struct.pack('>HHHH', sport, dport, 8 + len(p), 0) + p
def rtp(n): return struct.pack('>BBHII', 0x80, 0, n & 0xffff, 160 * n & 0xffffffff, 7) + bytes(160)
def ip6(inner, nxt=17): return struct.pack('>IHBB', 6 << 28, len(inner), nxt, 64) + bytes(15) + b'\1' + bytes(15) + b'\2' + inner
def frames(which, n, mac):
    e = lambda inner, kind=0x800, tags=b'': mac + b'\2\0\0\0\0\1' + tags + struct.pack('>H', kind) + inner
    tag = lambda v, t=0x8100: struct.pack('>HH', t, v)
    d = udp(rtp(n))
    if which == 'rtp': return [e(ip4(d))]
    return [e(ip4(d)), e(ip4(udp(bytes(10), 53, 53))), e(ip4(bytes(20) , 6)), e(ip4(d), tags=tag(5)), e(ip4(d), tags=tag(6, 0x88a8) + tag(7)),
            e(struct.pack('>I', 100 << 12 | 1 << 8 | 64) + ip4(d), 0x8847), e(ip6(d), 0x86dd), e(ip6(b'\x11\0' + bytes(6) + d, 0), 0x86dd),
            e(ip4(udp(bytes(1000))[:800], ident=n, flags=0x2000)), e(ip4(udp(bytes(1000))[800:], ident=n, flags=100)),
            e(bytes(46), 0x88b5), e(b'', 0x88b5), b'\xff' * 6 + b'\2\0\0\0\0\1' + struct.pack('>H', 0x806) + bytes(28),
            e(ip4(b'\x08\0' + bytes(6), 1)), e(ip4(udp(b'x' * 1400))), e(ip4(ip4(d), 4)), e(ip4(b'\0\0\x08\0' + ip4(d), 47))]
'''


def mac():
    return json.loads(sh(f'ip -j -n {B} link show capv1'))[0]['address']


def send(which, count, device='capv0'):
    for name, text in (('send.py', SEND), ('frames.py', FRAMES)):
        with open(os.path.join(FOLDER, name), 'w') as file:
            file.write(text)
    sh(f'ip netns exec {A} python3 {FOLDER}/send.py {which} {count} {device} {mac()} {FOLDER}/frames.py')


class Capture:
    def __init__(self, args, ns=B, out='out.pcapng', stdout=None, wait=True):
        self.path = os.path.join(FOLDER, out) if out else None
        self.errors = open(os.path.join(FOLDER, 'errors'), 'w+')
        self.results = open(os.path.join(FOLDER, 'results'), 'w+')
        words = ['ip', 'netns', 'exec', ns, QUAVER, 'capture', *(['-o', self.path] if out else []), *args]
        self.process = subprocess.Popen(words, stdout=stdout or self.results, stderr=self.errors, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        if wait:
            self.begun()

    def begun(self):
        limit = time.time() + 30
        while time.time() < limit and self.process.poll() is None:
            found = sh(f'ip netns exec {B} cat /proc/net/packet', False) + sh(f'ip netns exec {A} cat /proc/net/packet', False)
            if len(found.splitlines()) > 2 and 'apturing' in open(self.errors.name).read():
                return
            time.sleep(0.05)

    def end(self, number=signal.SIGINT):
        if self.process.poll() is None:
            self.process.send_signal(number)
        self.process.wait(60)
        self.errors.seek(0); self.results.seek(0)
        self.words, text = self.errors.read(), self.results.read()
        try:
            return json.loads(text)
        except ValueError:
            return text


def count(path):
    return sum(1 for _ in sh(f'tshark -n -r {path} -T fields -e frame.number', False).splitlines())


class Check:
    def __init__(self):
        self.wrong, self.notes = [], []

    def eq(self, what, got, want):
        if got != want:
            self.wrong.append(f'{what}: {got}, expected {want}')

    def note(self, text):
        self.notes.append(str(text))


FILTERS = ['', 'udp', 'tcp', 'arp', 'icmp', 'ip6', 'ip6 and udp', 'vlan', 'vlan 5', 'vlan and vlan', 'mpls', 'mpls and udp', 'ip proto 4', 'ip proto gre',
           'less 60', 'greater 1000', 'ether proto 0x88b5', 'ether broadcast', 'ip[6:2] & 0x3fff != 0', 'port 53', 'not udp', 'src host 10.9.0.1',
           'udp or (vlan and udp)', 'vlan or udp', 'ether[12:2] = 0x8100', 'len == 14', 'udp[8] = 0x80', 'inbound', 'outbound', 'ip6 protochain 17', 'portrange 50-60']


@case
def filters(check):
    for words in FILTERS:
        path = os.path.join(FOLDER, 'tcpdump.pcap')
        dump = subprocess.Popen(['ip', 'netns', 'exec', B, 'tcpdump', '-Z', 'root', '-i', 'capv1', '-n', '-U', '--immediate-mode', '-w', path, *([words] if words else [])], stderr=subprocess.PIPE, text=True)
        dump.stderr.readline()
        capture = Capture(['-i', 'capv1', '--json', *(['--filter', words] if words else [])])
        if capture.process.poll() is not None:
            capture.end(); check.note(f'{words!r}: {capture.words.strip()[:160]}')
        time.sleep(0.7)
        send('all', 6)
        time.sleep(0.4)
        dump.send_signal(signal.SIGINT); dump.wait()
        found = capture.end()
        if isinstance(found, dict):
            check.eq(repr(words), (found['captured'], count(capture.path)), (count(path),) * 2)


def simple(name, args, during, want=None):
    def run(check):
        capture = Capture(['--json', *args])
        during(check, capture)
        found = capture.end()
        check.status = capture.process.returncode
        check.note((capture.process.returncode, [line for line in capture.words.strip().splitlines() if line][-3:]))
        if isinstance(found, dict):
            check.note({k: found[k] for k in ('seen', 'captured', 'dropped', 'ended_by')})
            check.note(found['notes'])
            check.eq('sum', found['seen'], found['captured'] + found['dropped'])
            if want is not None:
                check.eq('captured, in the file', (found['captured'], count(capture.path)), (want, want))
            return found
        check.wrong.append('no results: ' + str(found)[:200])
    run.__name__ = name
    CASES.append(run)


def renamed(check, capture):
    send('rtp', 20)
    sh(f'ip -n {B} link set capv1 name capv9'); time.sleep(0.3)
    send_to_9()
    sh(f'ip -n {B} link set capv9 name capv1')


def send_to_9():
    address = json.loads(sh(f'ip -j -n {B} link show capv9'))[0]['address']
    sh(f'ip netns exec {A} python3 {FOLDER}/send.py rtp 20 capv0 {address} {FOLDER}/frames.py')
    time.sleep(0.3)


def renamed_and_replaced(check, capture):
    send('rtp', 20)
    sh(f'ip -n {B} link set capv1 name capv9; ip -n {B} link add capv1 type veth peer name capx; ip -n {B} link set capx up; ip -n {B} link set capv1 up')
    send_to_9()
    sh(f'ip -n {B} link del capv1; ip -n {B} link set capv9 name capv1')


def down_up(check, capture):
    for _ in range(3):
        send('rtp', 10)
        time.sleep(0.2)
        sh(f'ip -n {B} link set capv1 down'); time.sleep(0.2); sh(f'ip -n {B} link set capv1 up'); time.sleep(0.2)
    send('rtp', 10); time.sleep(0.2)


def moved(check, capture):
    send('rtp', 10); time.sleep(0.2)
    sh(f'ip netns add cap-c; ip -n {B} link set capv1 netns cap-c'); time.sleep(1)
    sh(f'ip -n cap-c link set capv1 netns {B}; ip -n {B} addr add 10.9.0.2/24 dev capv1; ip -n {B} link set capv1 up; ip netns del cap-c')
    time.sleep(0.5)


def removed(check, capture):
    send('rtp', 10); time.sleep(0.2)
    sh(f'ip -n {B} link del capv1'); time.sleep(1)
    clear(); lab()


quick = lambda n: lambda check, capture: (send('rtp', n), time.sleep(0.4))
simple('plain', ['-i', 'capv1', 'udp'], quick(50), 50)
simple('renamed', ['-i', 'capv1', 'udp'], renamed, 40)
simple('renamed_and_replaced', ['-i', 'capv1', 'udp'], renamed_and_replaced, 40)
simple('down_up', ['-i', 'capv1', 'udp'], down_up, 40)
simple('moved', ['-i', 'capv1', 'udp'], moved, 10)
simple('removed', ['-i', 'capv1', 'udp'], removed, 10)
simple('any', ['-i', 'any', 'udp'], quick(30), 30)
simple('two_interfaces', ['-i', 'lo', '-i', 'capv1', 'udp'], quick(30), 30)
simple('snap_1', ['-i', 'capv1', '-s', '1', 'udp'], quick(30), 30)
simple('immediate', ['-i', 'capv1', '--immediate', 'udp'], quick(30), 30)
simple('count_1', ['-i', 'capv1', '-c', '1', 'udp'], quick(30), 1)


@case
def two_at_once(check):
    one, two = Capture(['-i', 'capv1', '--json', 'udp'], out='one.pcapng'), None
    two = subprocess.Popen(['ip', 'netns', 'exec', B, QUAVER, 'capture', '-i', 'capv1', '--json', '-q', '-o', FOLDER + '/two.pcapng', 'udp'], stdout=subprocess.PIPE, text=True)
    time.sleep(1.5)
    send('rtp', 50); time.sleep(0.4)
    found = one.end()
    send('rtp', 50); time.sleep(0.4)
    two.send_signal(signal.SIGINT)
    other = json.loads(two.communicate()[0])
    check.eq('both', (found['captured'], other['captured']), (50, 100))
    stamped = other['interfaces'][0]['stamped']
    check.eq('stamps of the second', {k: v for k, v in stamped.items() if v}, {k: 100 for k, v in stamped.items() if v})
    check.note(stamped)


@case
def signals_at_the_start(check):
    # Each of three signals after so many milliseconds: the process ends, with a status that it documents, and leaves nothing behind.
    statuses = {}
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        for after in (0, 0.005, 0.02, 0.05, 0.1, 0.2):
            capture = Capture(['-i', 'capv1', '--json', 'udp'], wait=False)
            time.sleep(after)
            capture.end(number)
            statuses.setdefault(number.name, []).append(capture.process.returncode)
    check.note(statuses)
    left = sh(f'ip netns exec {B} ip -j -d link show capv1')
    check.eq('xdp left', 'xdp' in left, False)


@case
def two_signals(check):
    capture = Capture(['-i', 'capv1', '--json', 'udp'])
    send('rtp', 20); time.sleep(0.2)
    capture.process.send_signal(signal.SIGTERM); capture.process.send_signal(signal.SIGHUP); time.sleep(0.001)
    capture.end(signal.SIGINT)
    check.note((capture.process.returncode, count(capture.path)))
    check.eq('in the file', count(capture.path), 20)


@case
def ring(check):
    capture = Capture(['-i', 'capv1', '--json', '--ring-files', '3', '--file-size', '4kB', 'udp'], out='ring.pcapng')
    send('rtp', 100); time.sleep(0.4)
    found = capture.end()
    numbers = []
    for path in found['files']:
        numbers += [int(x) for x in sh(f'tshark -n -r {path} -d udp.port==6000,rtp -T fields -e rtp.seq').split()]
    check.eq('captured', found['captured'], 100)
    check.eq('the latest', numbers, list(range(100 - len(numbers), 100)))
    check.note((found['files'], len(numbers)))


@case
def time_and_size(check):
    capture = Capture(['-i', 'capv1', '--json', '--file-time', '200ms', '--file-size', '1MB', '--for', '2s', 'udp'], out='turn.pcapng')
    send('rtp', 100)
    capture.process.wait(30)
    found = capture.end()
    check.eq('sum', sum(count(path) for path in found['files']), 100)
    check.eq('status, end', (capture.process.returncode, found['ended_by']), (0, 'time'))
    check.note(len(found['files']))


@case
def reader_goes_away(check):
    read, write = os.pipe()
    capture = Capture(['-i', 'capv1', 'udp'], out=None, stdout=None, wait=False)
    capture.end()
    capture.process = subprocess.Popen(['ip', 'netns', 'exec', B, QUAVER, 'capture', '-i', 'capv1', '-o', '-', 'udp'], stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write); time.sleep(1.5)
    send('rtp', 10); time.sleep(0.3)
    os.read(read, 200)
    os.close(read)
    send('rtp', 10)
    try:
        check.eq('status', capture.process.wait(10), 0)
    except subprocess.TimeoutExpired:
        capture.process.kill(); check.wrong.append('hangs')
    check.note(capture.process.stderr.read().strip().splitlines()[-8:])


@case
def full_disk(check):
    folder = FOLDER + '/full'
    os.makedirs(folder, exist_ok=True)
    sh(f'mount -t tmpfs -o size=64k capfull {folder}')
    try:
        for extra in ([], ['--ring-files', '2', '--file-size', '20kB'], ['--ring-files', '3', '--file-size', '100kB']):
            capture = Capture(['-i', 'capv1', '--json', *extra, 'udp'], out='full/x.pcapng')
            send('rtp', 600); time.sleep(0.5)
            found = capture.end()
            there = sum(count(os.path.join(folder, name)) for name in sorted(os.listdir(folder)))
            if isinstance(found, dict):
                check.eq('captured and unwritten', found['captured'] + found['interfaces'][0]['dropped']['unwritten'], 600)
                check.note((extra, capture.process.returncode, found['captured'], there, capture.words.strip().splitlines()[-1:]))
            else:
                check.wrong.append(f'{extra}: no results; {capture.words.strip()[-200:]}')
            for name in os.listdir(folder):
                os.unlink(os.path.join(folder, name))
    finally:
        sh(f'umount {folder}')


@case
def folder_vanishes(check):
    folder = FOLDER + '/gone'
    os.makedirs(folder, exist_ok=True)
    capture = Capture(['-i', 'capv1', '--json', '--ring-files', '2', '--file-size', '4kB', 'udp'], out='gone/x.pcapng')
    send('rtp', 30); time.sleep(0.3)
    sh(f'rm -r {folder}')
    send('rtp', 100); time.sleep(0.5)
    found = capture.end()
    check.note((capture.process.returncode, capture.words.strip().splitlines()[-2:]))
    check.eq('results', isinstance(found, dict), True)


@case
def train_of_udp_segment(check):
    capture = Capture(['-i', 'capv0', '--qos', '--json', '--direction', 'out', 'udp'], ns=A, out='train.pcapng')
    script = '''
import socket, struct, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.setsockopt(17, 103, 172)
for n in range(50):
    s.sendto(b"".join(struct.pack(">BBHII", 0x80, 0, 8*n+k, 160*(8*n+k), 7) + bytes(160) for k in range(8)), ("10.9.0.2", 6000)); time.sleep(0.01)
'''
    subprocess.run(['ip', 'netns', 'exec', A, 'python3', '-c', script]); time.sleep(0.4)
    found = capture.end()
    flow = found['flows']['flows'][0]
    check.note((found['captured'], flow['packets'], flow['sequence']))
    check.eq('lost', flow['sequence']['lost'], 0)


@case
def other_links(check):
    for words in ('tuntap add capt0 mode tun', 'link set capt0 up', 'link add link capv1 name capl0 type vlan id 5', 'link set capl0 up'):
        check.note(sh(f'ip -n {B} {words} 2>&1', False).strip())
    there = [name for name in ('capt0', 'capl0') if f' {name}' in sh(f'ip -n {B} link')]
    capture = Capture([word for name in there for word in ('-i', name)] + ['-i', 'lo', '-i', 'capv1', '--json'])
    send('all', 5); time.sleep(0.5)
    found = capture.end()
    if isinstance(found, dict):
        check.note([(i['name'], i['link_type'], i['seen'], i['captured']) for i in found['interfaces']])
        check.eq('in the file', count(capture.path), found['captured'])
        check.note(sh(f'capinfos -cI {capture.path}', False).count('Encapsulation'))
    else:
        check.wrong.append(capture.words[-300:])
    for name in ('capl0', 'capg0', 'capt0', 'capd0'):
        sh(f'ip -n {B} link del {name}', False)


os.makedirs(FOLDER, exist_ok=True)
clear(); lab(); send('rtp', 1)
bad = 0
try:
    for function in CASES:
        if ONLY and function.__name__ not in ONLY:
            continue
        check = Check()
        try:
            function(check)
        except Exception as error:
            check.wrong.append(f'{type(error).__name__}: {error}')
        bad += bool(check.wrong)
        print(f'{function.__name__:24}', 'right' if not check.wrong else 'WRONG: ' + '; '.join(check.wrong), '   # ' + ' | '.join(check.notes) if check.notes else '', flush=True)
finally:
    clear()
print(f'{bad} wrong')
