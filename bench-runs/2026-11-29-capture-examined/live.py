"""Captures of traffic of its own between two network namespaces, beside tcpdump, tshark and capinfos; a line a case.

python3 live.py QUAVER FOLDER [CASE...]      as root
"""
from traffic import *

# --- filters ------------------------------------------------------------------------------------------------------

FILTERS = ['ip6 protochain 17', 'ip protochain 17', 'ip6 protochain 6 or arp', 'udp and not ip6 protochain 17', 'vlan and ip6 protochain 17', 'ip6 protochain 17 or vlan', 'ether multicast',
           'ip6 multicast', 'ip multicast', 'ip broadcast', 'llc', 'stp', 'pppoes', 'pppoes 9 and udp', 'pppoes 8', 'mpls 100', 'mpls 101', 'vlan 6 and ip6', 'vlan 7', 'ip[0] & 0xf > 5', 'tcp[tcpflags] & tcp-syn != 0', 'icmp6',
           'ip6[6] = 0', 'sctp', 'ah', 'esp', 'net 10.9.0/24', 'dst net 10.9.0.0 mask 255.255.255.0', 'ip proto \\udp', 'portrange 6001-5999', 'udp port domain', 'len > 100 and not vlan',
           'ether proto \\ip6', 'ether host 02:00:00:00:00:01', 'ifname cmpv1', 'ifindex 2', 'inbound and ip6', 'wlan type mgt', 'gateway nowhere', 'geneve', 'vxlan', 'ether[0] & 1 = 1',
           'link[0] = 0', 'greater 70 and less 80', 'atalk', 'isis', 'radio[0] = 1', 'random', 'udp[1000] = 1', 'ip[99999999999] = 0', '((((((udp))))))', 'host ::1', 'ip6 host ::2', 'port 70000', 'proto 300']


@case
def filters(check):
    rights = 0
    for words in FILTERS:
        path = os.path.join(FOLDER, 'tcpdump.pcap')
        dump = subprocess.Popen(['ip', 'netns', 'exec', B, 'tcpdump', '-Z', 'root', '-i', 'cmpv1', '-n', '-U', '--immediate-mode', '-w', path, words], stderr=subprocess.PIPE, text=True, **INTERRUPTIBLE)
        first = dump.stderr.readline()
        while first.startswith(('Warning', 'tcpdump: Warning', 'dropped')):
            first = dump.stderr.readline()
        refused = 'listening' not in first
        capture = Capture(['-i', 'cmpv1', '--json', '--filter', words])
        if capture.process.poll() is not None or refused:
            both = capture.process.poll() is not None and refused
            capture.end()
            if dump.poll() is None:
                dump.send_signal(signal.SIGINT)
            dump.wait()
            if both:
                rights += 1
                check.true(f'{words!r}: status {capture.process.returncode}', capture.process.returncode == 2)
            else:
                check.wrong.append(f'{words!r}: tcpdump {first.strip()[:80]!r}, quaver {capture.process.returncode} {capture.last}')
            continue
        send('all', 3)
        time.sleep(0.3)
        dump.send_signal(signal.SIGINT); capture.process.send_signal(signal.SIGINT); dump.wait()
        found = capture.end(0)
        got = (found['captured'], count(capture.path))
        check.eq(repr(words), got, (count(path),) * 2)
        rights += got == (count(path),) * 2
    check.note(f'{rights} of {len(FILTERS)}')


@case
def filters_of_any(check):
    for words, want in (('ip6 protochain 17', 18), ('ip6 protochain 17 and port 6000', 18)):
        capture = Capture(['-i', 'any', '--json', '--filter', words])
        send('all', 3); time.sleep(0.3)
        found = capture.end()
        dump = sh(f"tcpdump -n -r {FOLDER}/all.pcap '{words}' 2>/dev/null | wc -l", False).strip() if os.path.exists(f'{FOLDER}/all.pcap') else ''
        if isinstance(found, dict):
            check.note((words, found['captured'], found['dropped'], capture.last[-1:]))
        else:
            check.wrong.append(f'{words}: {capture.last}')


# --- interfaces -----------------------------------------------------------------------------------------------------

@case
def moved(check):
    capture = Capture(['-i', 'cmpv1', '--json', 'udp'])
    send(count=10); time.sleep(0.2)
    sh(f'ip netns add {C}; ip -n {B} link set cmpv1 netns {C}'); time.sleep(1)
    found = capture.end()
    check.eq('captured, file, status', (found['captured'], count(capture.path), capture.process.returncode), (10, 10, 6))
    for words in (capture.words, str(found['notes'])):
        if 'was removed' in words and 'moved' not in words:
            check.wrong.append('told as removed')
    check.note((capture.last, found['notes']))
    clear(); lab()


@case
def moved_of_two(check):
    sh(f'ip -n {B} link add cmpd0 type veth peer name cmpd1; ip -n {B} link set cmpd1 up; ip -n {B} link set cmpd0 up')
    capture = Capture(['-i', 'cmpd0', '-i', 'cmpv1', '--json', 'udp'])
    sh(f'ip netns add {C}; ip -n {B} link set cmpd0 netns {C}'); time.sleep(0.7)
    send(count=10); time.sleep(0.4)
    found = capture.end()
    check.eq('captured, status', (found['captured'], capture.process.returncode), (10, 0))
    check.note(found['notes'])
    sh(f'ip netns del {C}')


@case
def jumbo_and_tiny(check):
    sh(f'ip -n {A} link set cmpv0 mtu 9000; ip -n {B} link set cmpv1 mtu 9000')
    capture = Capture(['-i', 'cmpv1', '--json', '-s', '100'])
    script = "import socket;s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\nfor n in (0,1,17,18,19,8000,8972):s.sendto(bytes(n),('10.9.0.2',7))"
    subprocess.run(['ip', 'netns', 'exec', A, 'python3', '-c', script]); time.sleep(0.4)
    found = capture.end()
    lengths = sorted(set(numbers(capture.path, 'udp.length')))
    check.eq('lengths', [n for n in lengths if n in (8, 9, 25, 26, 27, 8008, 8980)], [8, 9, 25, 26, 27, 8008, 8980])
    check.eq('cut', max(numbers(capture.path, 'frame.cap_len')), 100)
    sh(f'ip -n {A} link set cmpv0 mtu 1500; ip -n {B} link set cmpv1 mtu 1500')


def train_capture(check, args, ns=A, device='cmpv0', direction=('--direction', 'out')):
    capture = Capture(['-i', device, '--qos', '--json', *direction, *args, 'udp'], ns=ns, out='train.pcapng')
    script = '''
import socket, struct, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.setsockopt(17, 103, 172)
for n in range(50):
    s.sendto(b"".join(struct.pack(">BBHII", 0x80, 0, 8*n+k, 160*(8*n+k), 7) + bytes(160) for k in range(8)), ("10.9.0.2", 6000)); time.sleep(0.01)
'''
    subprocess.run(['ip', 'netns', 'exec', A, 'python3', '-c', script]); time.sleep(0.4)
    found = capture.end()
    flow = found['flows']['flows'][0]
    check.note((found['captured'], flow['packets'], flow['sequence'] and flow['sequence']['lost'], flow.get('numbers_cut'), capture.last))
    check.eq('lost', (flow['sequence'] or {}).get('lost', 0), 0)
    return capture


@case
def trains_sent(check):
    for snap in ('262144', '128', '700'):
        train_capture(check, ['-s', snap])


@case
def trains_by_gro(check):
    # rx-udp-gro-forwarding puts single datagrams together before they are captured.
    sh(f'ip netns exec {B} ethtool -K cmpv1 rx-udp-gro-forwarding on gro on', False)
    sh(f'ip netns exec {A} ethtool -K cmpv0 tx-udp-segmentation off', False)
    train_capture(check, ['-s', '128'], B, 'cmpv1', ('--direction', 'in', '--layers', 'none'))
    clear(); lab()


# --- extcap -----------------------------------------------------------------------------------------------------------

EXTCAP = re.search(r'Extcap path:\s*(\S+)', subprocess.run(['tshark', '-G', 'folders'], capture_output=True, text=True).stdout)[1]


def tshark(words):
    folder = os.path.join(FOLDER, 'extcap'); os.makedirs(folder, exist_ok=True)
    script = os.path.join(folder, 'quaver-extcap')
    with open(script, 'w') as file:
        file.write(f'#!/bin/sh\nexec {QUAVER} extcap "$@"\n')
    os.chmod(script, 0o755)
    # The namespace of mounts is the command's own.
    words = ['sh', '-c', f'mount --bind {folder} "$0" && exec tshark -n "$@"', EXTCAP, *words]
    return subprocess.Popen(['ip', 'netns', 'exec', B, *words], stdout=subprocess.PIPE, stderr=open(f'{FOLDER}/tshark-errors', 'w'), text=True, **INTERRUPTIBLE)


def ours():
    return [p for p in sh('pgrep -f "quaver[a-z-]* extcap"', False).split()]


@case
def extcap_calls(check):
    def call(*words, status=0, has='', error=''):
        done = subprocess.run(['ip', 'netns', 'exec', B, QUAVER, 'extcap', *words], capture_output=True, text=True, timeout=20)
        if done.returncode != status or has not in done.stdout or error not in done.stderr or 'panicked' in done.stderr:
            check.wrong.append(f'{words}: {done.returncode} {done.stdout[:100]!r} {done.stderr[-200:]!r}')
        return done
    call('--extcap-interfaces', has='{value=quaver-cmpv1}')
    call('--extcap-interfaces', '--extcap-version=4.0', has='{value=quaver-any}')
    call('--extcap-interface', 'quaver-cmpv1', '--extcap-dlts', has='EN10MB')
    call('--extcap-interface=quaver-any', '--extcap-dlts', has='SLL2')
    call('--extcap-interface', 'quaver-cmpv1', '--extcap-config', has='arg {number=0}')
    call('--extcap-interface', 'quaver-cmpv1', '--extcap-config', '--extcap-reload-option', 'layers', status=2)
    call('--extcap-dlts', status=2, error='--extcap-interface')
    call('--extcap-interface', 'quaver-nope', '--extcap-dlts', status=2, error='nope')
    call('--extcap-interface', 'cmpv1', '--extcap-dlts', status=2, error='quaver-')
    call('--extcap-interface', 'quaver-nope', '--extcap-config', status=0)
    call('--capture', '--extcap-interface', 'quaver-cmpv1', status=2, error='--fifo')
    call('--capture', '--extcap-interface', 'quaver-nope', '--fifo', f'{FOLDER}/nofifo', status=2, error='nope')
    call('--capture', '--extcap-interface', 'quaver-cmpv1', '--fifo', f'{FOLDER}/nofolder/fifo', status=6, error='nofolder')
    call('--capture', '--extcap-interface', 'quaver-cmpv1', '--fifo', f'{FOLDER}/f1', '--layers', 'nonsense', status=2, error='layers')
    call('--capture', '--extcap-interface', 'quaver-cmpv1', '--fifo', f'{FOLDER}/f1', '--extcap-capture-filter', 'udp prot', status=2, error='syntax')
    call('--extcap-interface', 'quaver-cmpv1', '--extcap-capture-filter', 'udp port 5')
    call('--extcap-interface', 'quaver-cmpv1', '--extcap-capture-filter', 'udp prot 5', has='syntax')
    call('--extcap-interface', 'quaver-any', '--extcap-capture-filter', 'vlan', has='VLAN')
    call(status=2, error='Wireshark')
    for left in ('nofifo', 'f1'):
        check.true(f'{left} was made', not os.path.exists(f'{FOLDER}/{left}'))


@case
def extcap_tshark_lists(check):
    out, _ = tshark(['-D']).communicate(timeout=60)
    check.true('cmpv1 listed: ' + out, 'quaver-cmpv1' in out and 'quaver-any' in out)
    out, _ = tshark(['-i', 'quaver-cmpv1', '-L']).communicate(timeout=60)
    check.true('link types: ' + out, 'EN10MB' in out)


def extcap_capture(check, words, during, want, device='quaver-cmpv1', out='ext.pcapng'):
    path = os.path.join(FOLDER, out)
    if os.path.exists(path):
        os.unlink(path)
    before = sockets()
    process = tshark(['-i', device, '-w', path, *words])
    check.true('begun', wait_for(lambda: sockets() > before or process.poll() is not None))
    time.sleep(0.5)
    during(process)
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill(); check.wrong.append('tshark hangs')
    check.true('quaver left', wait_for(lambda: not ours(), 8))
    for pid in ours():
        os.kill(int(pid), signal.SIGKILL)
    errors = open(f'{FOLDER}/tshark-errors').read()
    if want is not None:
        check.eq('in the file', count(path), want)
    check.note([line for line in errors.splitlines() if 'root' not in line][-4:])
    return errors


@case
def extcap_count(check):
    extcap_capture(check, ['-c', '20', '-f', 'udp'], lambda p: send(count=40), 20)


@case
def extcap_interrupted(check):
    extcap_capture(check, ['-f', 'udp port 6000'], lambda p: (send('all', 5), time.sleep(0.7), p.send_signal(signal.SIGINT)), 30)


@case
def extcap_duration(check):
    extcap_capture(check, ['-f', 'udp port 6000', '-a', 'duration:3'], lambda p: send(count=30), 30)


@case
def extcap_two_interfaces(check):
    extcap_capture(check, ['-f', 'udp port 6000', '-i', 'quaver-lo'], lambda p: (send(count=30), time.sleep(0.7), p.send_signal(signal.SIGINT)), 30)


@case
def extcap_any(check):
    extcap_capture(check, ['-f', 'udp port 6000'], lambda p: (send(count=30), time.sleep(0.7), p.send_signal(signal.SIGINT)), 30, 'quaver-any')


@case
def extcap_any_with_a_nic(check):
    extcap_capture(check, ['-f', 'udp port 6000', '-i', 'cmpv1', '-f', 'udp port 6000'], lambda p: (send(count=30), time.sleep(0.7), p.send_signal(signal.SIGINT)), 60)


@case
def extcap_bad_filter(check):
    started = time.time()
    errors = extcap_capture(check, ['-f', 'udp prot 6'], lambda p: None, None)
    check.true('no words of the filter: ' + errors[-300:], 'syntax' in errors)
    check.true('slow', time.time() - started < 60)


@case
def extcap_removed(check):
    extcap_capture(check, ['-f', 'udp'], lambda p: (send(count=10), time.sleep(0.5), sh(f'ip -n {B} link del cmpv1')), 10)
    clear(); lab()


@case
def extcap_tshark_killed(check):
    # The reader is gone, and nothing comes: quaver ends by itself.
    for quiet in (False, True):
        extcap_capture(check, ['-f', 'udp'], lambda p: (send(count=10), time.sleep(0.5), p.send_signal(signal.SIGKILL), None if quiet else send(count=10)), None)


def fifo_case(name, close):
    def run(check):
        path = os.path.join(FOLDER, 'fifo')
        if os.path.exists(path):
            os.unlink(path)
        os.mkfifo(path)
        process = subprocess.Popen(['ip', 'netns', 'exec', B, QUAVER, 'extcap', '--capture', '--extcap-interface', 'quaver-cmpv1', '--fifo', path], stderr=subprocess.PIPE, text=True, **INTERRUPTIBLE)
        close(check, path, process)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill(); check.wrong.append('quaver goes on')
        words = process.stderr.read()
        check.note((process.returncode, words.strip().splitlines()[-2:]))
        check.true('panic', 'panicked' not in words)
    run.__name__ = name
    CASES.append(run)


def closed_idle(check, path, process):
    reader = os.open(path, os.O_RDONLY)
    time.sleep(1); os.close(reader)


def closed_busy(check, path, process):
    reader = os.open(path, os.O_RDONLY)
    time.sleep(1); send(count=10); time.sleep(0.2); os.close(reader); send(count=10)


def stopped_reader(check, path, process):
    # It reads nothing, and then the end is asked for.
    reader = os.open(path, os.O_RDONLY)
    time.sleep(1); send(count=3000, gap=0); process.send_signal(signal.SIGTERM); time.sleep(8); os.close(reader)


def no_reader(check, path, process):
    time.sleep(1); process.send_signal(signal.SIGTERM)


fifo_case('fifo_closed_while_idle', closed_idle)
fifo_case('fifo_closed_while_busy', closed_busy)
fifo_case('fifo_that_nobody_reads', stopped_reader)
fifo_case('fifo_that_nobody_opens', no_reader)


# --- rotation ----------------------------------------------------------------------------------------------------------

def parts(folder):
    return sorted(os.path.join(folder, name) for name in os.listdir(folder))


@case
def killed_between_turns(check):
    for after in (0.05, 0.3, 0.9, 1.4):
        folder = FOLDER + '/ring'; sh(f'rm -rf {folder}'); os.makedirs(folder)
        capture = Capture(['-i', 'cmpv1', '--ring-files', '4', '--file-size', '6kB', '--file-time', '500ms', 'udp'], out='ring/x.pcapng')
        sender = send(count=1500, gap=0.001, wait=False); time.sleep(after)
        capture.end(signal.SIGKILL); sender.wait()
        seen = [n for path in parts(folder) for n in numbers(path)]
        check.eq(f'numbers go on, after {after}', seen, list(range(seen[0], seen[0] + len(seen))) if seen else [])
        check.true('files', 1 <= len(parts(folder)) <= 5)
        for path in parts(folder):
            done = subprocess.run([QUAVER, 'analyze', path, '--json'], capture_output=True, text=True)
            check.true(f'analyze: {done.stderr[-100:]}', done.returncode == 0)
        check.note((len(parts(folder)), len(seen)))
    left = sh(f'ip -n {B} -d link show cmpv1')
    check.note('xdp left: ' + str('xdp' in left))


@case
def hung_up(check):
    # SIGHUP and SIGTERM end in order; all that was captured is there.
    for number in (signal.SIGHUP, signal.SIGTERM):
        folder = FOLDER + '/hup'; sh(f'rm -rf {folder}'); os.makedirs(folder)
        capture = Capture(['-i', 'cmpv1', '--json', '--file-size', '8kB', 'udp'], out='hup/x.pcapng')
        send(count=200, gap=0); found = capture.end(number)
        check.eq(f'{number.name}', ([n for p in parts(folder) for n in numbers(p)], found['captured']), (list(range(200)), 200))
        told = [re.findall(r'number of packets[^0-9]*(\d+)', sh(f'capinfos -Mc {p}').lower()) for p in parts(folder)]
        check.eq('sum of capinfos', sum(int(t[0]) for t in told), 200)


@case
def disk_fills_in_the_middle(check):
    folder = FOLDER + '/full'; os.makedirs(folder, exist_ok=True)
    sh(f'mount -t tmpfs -o size=400k cmpfull {folder}')
    try:
        for extra in (['--file-size', '50kB'], ['--ring-files', '3', '--file-size', '50kB'], ['--file-time', '200ms'], []):
            capture = Capture(['-i', 'cmpv1', '--json', *extra, 'udp'], out='full/x.pcapng')
            send(count=200, gap=0.001); time.sleep(0.3)
            hog = os.open(folder + '/hog', os.O_CREAT | os.O_WRONLY)
            try:
                while True:
                    os.write(hog, bytes(4096))
            except OSError:
                os.close(hog)
            send(count=600, gap=0.001); time.sleep(0.5)
            found = capture.end()
            os.unlink(folder + '/hog')
            paths = [p for p in parts(folder)]
            seen = [n for p in paths for n in numbers(p)]
            if isinstance(found, dict):
                kept = found['captured'] if '--ring-files' not in extra else len(seen)
                check.eq(f'{extra}: told and in the files', kept, len(seen))
                check.note((extra, capture.process.returncode, found['captured'], len(seen), found['interfaces'][0]['dropped'], capture.last[-1:]))
            else:
                check.wrong.append(f'{extra}: {capture.last}')
            for p in paths:
                os.unlink(p)
    finally:
        sh(f'umount {folder}')


@case
def pipe_reader_leaves(check):
    for reader, expect in (('head -c 3000 >/dev/null', 0), ('true', 6), ('tshark -n -r - -c 5 >/dev/null 2>&1', 0)):
        words = f'ip netns exec {B} {QUAVER} capture -i cmpv1 -o - udp 2>{FOLDER}/pipe-errors | {reader}; echo ${{PIPESTATUS[0]}}'
        process = subprocess.Popen(['bash', '-c', words], stdout=subprocess.PIPE, text=True, **INTERRUPTIBLE)
        time.sleep(1.2)
        for _ in range(5):
            send(count=20); time.sleep(0.3)
        try:
            out, _ = process.communicate(timeout=15)
            check.eq(reader, out.strip(), str(expect))
        except subprocess.TimeoutExpired:
            check.wrong.append(f'{reader}: goes on'); sh(f'pkill -INT -P {process.pid}', False)
        check.note(open(FOLDER + '/pipe-errors').read().strip().splitlines()[-6:])


@case
def pipe_reader_leaves_and_nothing_comes(check):
    words = f'ip netns exec {B} {QUAVER} capture -i cmpv1 -o - udp port 9 2>{FOLDER}/pipe-errors | sleep 1.5; echo ${{PIPESTATUS[0]}}'
    process = subprocess.Popen(['bash', '-c', words], stdout=subprocess.PIPE, text=True, **INTERRUPTIBLE)
    try:
        out, _ = process.communicate(timeout=12)
        check.eq('status', out.strip(), '0')
    except subprocess.TimeoutExpired:
        check.wrong.append('goes on')
        for pid in sh('pgrep -f "capture -i cmpv1 -o - udp port 9"', False).split():
            os.kill(int(pid), signal.SIGINT)
        process.communicate()


@case
def names_of_turns(check):
    # Odd names of the output.
    for name in ('noext', 'two.dots.pcapng', '.hidden', 'a b.pcapng', 'x.pcap'):
        folder = FOLDER + '/names'; sh(f'rm -rf {folder}'); os.makedirs(folder)
        capture = Capture(['-i', 'cmpv1', '--json', '--file-size', '4kB', 'udp'], out='names/' + name)
        send(count=60, gap=0); found = capture.end()
        check.eq(name, sum(count(f"'{p}'") for p in parts(folder)), 60)
        check.note([os.path.basename(p) for p in parts(folder)][:2])


# --- raw stamps and the clock -----------------------------------------------------------------------------------------

def hexes(path, *fields):
    return [line.split('\t') for line in sh(f'tshark -n -r {path} -T fields ' + ' '.join('-e ' + f for f in fields), False).splitlines()]


def raw_against_tcpdump(check, during, args=(), least=0):
    path = os.path.join(FOLDER, 'judge.pcap')
    dump = subprocess.Popen(['ip', 'netns', 'exec', B, 'tcpdump', '-Z', 'root', '-i', 'cmpv1', '-n', '-j', 'host', '--nano', '--immediate-mode', '-B', '32768', '-w', path, 'udp'], stderr=subprocess.PIPE, text=True, **INTERRUPTIBLE)
    dump.stderr.readline()
    capture = Capture(['-i', 'cmpv1', '--json', '--stamp', 'raw', '--direction', 'in', *args, 'udp'], out='raw.pcapng')
    if capture.process.poll() is not None:
        capture.end(); dump.send_signal(signal.SIGINT); dump.wait()
        check.wrong.append(f'no capture: {capture.last}')
        return None
    during(); time.sleep(0.5)
    dump.send_signal(signal.SIGINT); dump.wait()
    found = capture.end()
    key = lambda line: tuple(line[1:])
    def table(path):
        out = {}
        for line in hexes(path, 'frame.time_epoch', 'udp.srcport', 'udp.payload'):
            seconds, rest = line[0].split('.')
            out[(line[1], line[2][24:32])] = int(seconds) * 10**9 + int(rest.ljust(9, '0'))
        return out
    own, other = table(capture.path), table(path)
    apart = sorted(own[k] - other[k] for k in own if k in other)
    check.eq('packets of both', len(apart), least)
    check.note(('apart ns: least, p50, p99, most', apart[0], apart[len(apart) // 2], apart[len(apart) * 99 // 100], apart[-1]) if apart else 'none')
    check.note({k: found['interfaces'][0].get(k) for k in ('captured', 'stamped', 'shown_by_other_layer')})
    check.note({k: v for k, v in found.items() if k in ('raw', 'notes')})
    return found, apart, capture


@case
def raw_one_cpu(check):
    got = raw_against_tcpdump(check, lambda: send(count=3000, gap=0.0001, cpu=0), least=3000)
    if got:
        check.true('raw before the kernel', got[1][0] >= 0)
        check.true('far behind', got[1][len(got[1]) // 2] < 100_000)


@case
def raw_two_cpus(check):
    def both():
        senders = [send(count=3000, gap=0.0001, cpu=cpu, wait=False) for cpu in (0, 1)]
        [s.wait() for s in senders]
    for pipeline in ('batch', 'threaded', 'inline-cycles'):
        raw_against_tcpdump(check, both, ['--pipeline', pipeline], least=6000)


class Timespec(ctypes.Structure):
    _fields_ = [('s', ctypes.c_long), ('ns', ctypes.c_long)]


def step(by_ns):
    # In one go, so that nothing but the time of the two calls is lost.
    libc, now = ctypes.CDLL(None, use_errno=True), Timespec()
    libc.clock_gettime(0, ctypes.byref(now))
    total = now.s * 10**9 + now.ns + by_ns
    if libc.clock_settime(0, ctypes.byref(Timespec(total // 10**9, total % 10**9))):
        raise OSError(ctypes.get_errno())


def clock_step(name, by_ns, args):
    def run(check):
        done = 0
        def during():
            nonlocal done
            sender = send(count=2000, gap=0.001, wait=False)
            try:
                time.sleep(1.0); step(by_ns); done += by_ns; time.sleep(1.0)
            finally:
                if done:
                    step(-by_ns)
            sender.wait()
        capture = Capture(['-i', 'cmpv1', '--json', *args, 'udp'], out='step.pcapng')
        during(); time.sleep(0.3)
        found = capture.end()
        if not isinstance(found, dict):
            check.wrong.append(str(capture.last)); return
        check.eq('captured', (found['captured'], len(numbers(capture.path))), (2000, 2000))
        times = [int(line[0].replace('.', '')) for line in hexes(capture.path, 'frame.time_epoch')]
        jumps = [b - a for a, b in zip(times, times[1:]) if abs(b - a) > abs(by_ns) // 2]
        check.eq('jumps in the file', len(jumps), 2)
        check.note(jumps)
        notes = [note for note in found['notes'] if 'step' in note]
        check.eq('steps told', len(notes), 2)
        check.note(found['notes'])
        read = subprocess.run([QUAVER, 'analyze', capture.path, '--json'], capture_output=True, text=True)
        read = json.loads(read.stdout)
        check.eq('analyze lost', sum((f['sequence'] or {}).get('lost', 0) for f in read['flows']), 0)
        check.note((read['clock_steps'], [(f['packets'], f['clock_step'], f['delay'] and f['delay']['figures']['max_pdv_ns'] / 1e6) for f in read['flows']], read['warnings']))
    run.__name__ = name
    CASES.append(run)


clock_step('clock_forward', 700_000_000, [])
clock_step('clock_back', -700_000_000, [])
clock_step('clock_back_raw', -700_000_000, ['--stamp', 'raw'])


signal.signal(signal.SIGTERM, lambda *_: sys.exit('asked to end'))
os.makedirs(FOLDER, exist_ok=True)
clear(); lab()
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
            clear(); lab()
        bad += bool(check.wrong)
        print(f'{function.__name__:36}', 'right' if not check.wrong else 'WRONG: ' + '; '.join(check.wrong), '   # ' + ' | '.join(check.notes) if check.notes else '', flush=True)
finally:
    clear()
print(f'{bad} wrong')
