"""Two network namespaces, what is sent between them, captures of it and how a case is judged; for live.py."""
import ctypes, json, os, re, signal, struct, subprocess, sys, threading, time

QUAVER, FOLDER, ONLY = os.path.abspath(sys.argv[1]), sys.argv[2], sys.argv[3:]
A, B, C, CASES = 'cmp-a', 'cmp-b', 'cmp-c', []
INTERRUPTIBLE = dict(preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))


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
        sh(f'ip netns add {name}; ip -n {name} link set lo up; ip netns exec {name} sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1')
    sh(f'ip -n {A} link add cmpv0 numrxqueues 2 numtxqueues 2 type veth peer name cmpv1 numrxqueues 2 numtxqueues 2 netns {B}')
    sh(f'ip -n {A} addr add 10.9.0.1/24 dev cmpv0; ip -n {A} link set cmpv0 up; ip -n {B} addr add 10.9.0.2/24 dev cmpv1; ip -n {B} link set cmpv1 up')


def clear():
    for name in (A, B, C):
        sh(f'ip netns del {name}', False)


SEND = r'''
import socket, struct, sys, time
which, count, gap, device, mac, cpu = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4], bytes.fromhex(sys.argv[5].replace(':', '')), int(sys.argv[6])
if cpu >= 0:
    import os; os.sched_setaffinity(0, {cpu})
raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); raw.bind((device, 0))
def ip4(inner, proto=17, opts=b''): 
    h = struct.pack('>BBHHHBBH', 0x45 + len(opts) // 4, 0, 20 + len(opts) + len(inner), 0, 0, 64, proto, 0) + bytes([10,9,0,1,10,9,0,2]) + opts
    s = sum(struct.unpack(f'>{len(h)//2}H', h)); s = (s & 0xffff) + (s >> 16); s = ~(s + (s >> 16)) & 0xffff
    return h[:10] + struct.pack('>H', s) + h[12:] + inner
def udp(p, sport=5000 + max(cpu, 0), dport=6000): return struct.pack('>HHHH', sport, dport, 8 + len(p), 0) + p
def rtp(n): return struct.pack('>BBHII', 0x80, 0, n & 0xffff, 160 * n & 0xffffffff, 7 + max(cpu, 0)) + struct.pack('>I', n) + bytes(156)
def ip6(inner, nxt=17, dst=bytes(15) + b'\2'): return struct.pack('>IHBB', 6 << 28, len(inner), nxt, 64) + bytes(15) + b'\1' + dst + inner
e = lambda inner, kind=0x800, to=mac: to + b'\2\0\0\0\0\1' + struct.pack('>H', kind) + inner
tag = lambda inner, vid, kind=0x800: struct.pack('>HH', vid, kind) + inner
def frames(n):
    d = udp(rtp(n))
    if which == 'rtp': return [e(ip4(d))]
    return [e(ip4(d)), e(ip4(udp(bytes(10), 53, 53))), e(ip4(bytes(13) + b'\2' + bytes(6), 6)), e(tag(ip4(d), 5), 0x8100), e(tag(ip6(b'\x11\0' + bytes(6) + d, 60), 6, 0x86dd), 0x8100),
        e(ip6(d), 0x86dd), e(ip6(b'\x11\0' + bytes(6) + d, 0), 0x86dd), e(ip6(b'\x2b\0' + bytes(6) + b'\x11\0' + bytes(6) + d, 60), 0x86dd), e(ip6(b'\x06\0' + bytes(6) + bytes(20), 0), 0x86dd),
        e(ip6(b'\x11\x04' + bytes(22) + d, 51), 0x86dd), e(ip4(b'\x11\x04' + bytes(22) + d, 51)), e(ip4(d, opts=b'\x94\4\0\0')), e(b'\xaa\xaa\3\0\0\0\x08\0' + ip4(d), 8 + len(ip4(d))),
        e(b'\x42\x42\3' + bytes(43), 46, b'\1\x80\xc2\0\0\0'), e(ip6(d, dst=b'\xff\2' + bytes(13) + b'\1'), 0x86dd, b'\x33\x33\0\0\0\1'), e(ip4(d), to=b'\xff' * 6),
        e(struct.pack('>BBHHH', 0x11, 0, 9, len(d) + 22, 0x21) + ip4(d), 0x8864), e(struct.pack('>I', 100 << 12 | 0x140) + ip4(d), 0x8847), e(b'', 0x88b5), e(ip4(d, 132))]
for n in range(count):
    for frame in frames(n):
        while True:
            try: raw.send(frame); break
            except OSError: time.sleep(0.001)
    if gap: time.sleep(gap)
'''


def send(which='rtp', count=20, gap=0.0005, cpu=-1, wait=True):
    with open(os.path.join(FOLDER, 'send.py'), 'w') as file:
        file.write(SEND)
    mac = json.loads(sh(f'ip -j -n {B} link show cmpv1'))[0]['address']
    words = ['ip', 'netns', 'exec', A, 'python3', FOLDER + '/send.py', which, str(count), str(gap), 'cmpv0', mac, str(cpu)]
    return subprocess.run(words, check=True) if wait else subprocess.Popen(words)


def sockets():
    return len(sh(f'ip netns exec {B} cat /proc/net/packet', False).splitlines()) - 1


def wait_for(what, limit=30):
    end = time.time() + limit
    while time.time() < end:
        if what():
            return True
        time.sleep(0.03)
    return False


class Capture:
    def __init__(self, args, out='out.pcapng', stdout=None, wait=True, ns=B, verb='capture', name='x'):
        self.path = os.path.join(FOLDER, out) if out else None
        self.errors, self.results = open(f'{FOLDER}/errors-{name}', 'w+'), open(f'{FOLDER}/results-{name}', 'w+')
        words = ['ip', 'netns', 'exec', ns, QUAVER, verb, *(['-o', self.path] if out else []), *args]
        self.process = subprocess.Popen(words, stdout=stdout or self.results, stderr=self.errors, **INTERRUPTIBLE)
        if wait:
            wait_for(lambda: self.process.poll() is not None or 'apturing' in open(self.errors.name).read())
            time.sleep(0.1)

    def end(self, number=signal.SIGINT, limit=60):
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            self.process.wait(limit)
        except subprocess.TimeoutExpired:
            self.process.kill(); self.process.wait(); self.hung = True
        self.errors.seek(0); self.results.seek(0)
        self.words, text = self.errors.read(), self.results.read()
        self.last = [line for line in self.words.strip().splitlines() if line][-2:]
        try:
            return json.loads(text)
        except ValueError:
            return text


def numbers(path, field='rtp.seq'):
    return [int(x.split(',')[0]) for x in sh(f'tshark -n -r {path} -d udp.port==6000,rtp -T fields -e {field}', False).split()]


def count(path):
    return len(sh(f'tshark -n -r {path} -T fields -e frame.number', False).split())


class Check:
    def __init__(self):
        self.wrong, self.notes = [], []

    def eq(self, what, got, want):
        if got != want:
            self.wrong.append(f'{what}: {got}, expected {want}')

    def true(self, what, holds):
        if not holds:
            self.wrong.append(str(what))

    def note(self, text):
        self.notes.append(str(text))
