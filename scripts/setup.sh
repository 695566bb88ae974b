#!/usr/bin/env bash
# Installs what a make target needs by the system's packages. Installs nothing that is there already.
# usage: scripts/setup.sh [build|test|bench|lab|truth|dist]
set -euo pipefail

target="${1:-build}"

# One line a package: which target needs it, its name, the command or file that shows that it is there already
# (by whatever way it came; "-" asks the package system), and what for.
packages="
build clang           clang        compiles the BPF programs
build gcc             cc           links, and compiles libbpf
build binutils        objcopy      puts line tables into a file of their own
build libc6-dev       -            headers for libbpf and the BPF programs
build make            make         builds libbpf
build pkg-config      pkg-config   finds libelf
build libelf-dev      -            libbpf reads object files with it
build zlib1g-dev      -            libelf needs it
test  chromium        chromium     opens the HTML report and the book in browser tests
test  chromium-driver chromedriver drives that browser
test  python3         python3      runs the browser test, and that of the Python package
test  python3-venv    -            keeps that package's dependencies aside
test  xz-utils        xz           is recorded while it compresses with threads
test  gnuplot-nox     gnuplot      draws our scripts
test  tcpdump         tcpdump      reads our captures, and makes some for us to read
test  iproute2        tc           sets queueing disciplines in a guest of the QEMU lab
test  linuxptp        phc2sys      steers clocks in a guest of the QEMU lab
test  tshark          tshark       reads our captures to the last nanosecond
test  libpcap0.8      -            compiles the filters of captures
test  python3-prometheus-client - parses the metrics of quaver watch
test  prometheus      prometheus   raises the alerts of its rules
test  munge           -            vouches for the messages of Slurm, which runs a sweep
test  slurmctld       -            hands a sweep's parts out
test  slurmd          -            runs them
test  slurm-client    sbatch       submits them
test  qemu-user       qemu-x86_64  runs programs while they are traced for the simulator
test  valgrind        valgrind     counts misses beside quaver sim
test  libclang-rt-dev -            has clang's sanitizers, under which programs are recorded
test  libjemalloc2    -            is an allocator that recorded programs bring
test  libtcmalloc-minimal4 -       is another
test  default-jdk-headless javac   builds a program whose waits are its virtual machine's
test  golang-go       go           builds a program whose runtime waits by itself
test  dpkg-dev        dpkg-shlibdeps finds the C library that a package needs
test  umoci           umoci        unpacks the container image
test  systemd         systemd-analyze judges the units, and lists the system calls that they allow
dist  python3         python3      writes the bill of materials
dist  dpkg-dev        dpkg-shlibdeps finds the C library that the package needs
dist  rpm             rpmbuild     makes the RPM
dist  umoci           umoci        unpacks the container image
dist  lintian         lintian      judges the Debian package
truth gcc             gcc          builds the receivers in C
truth python3         python3      runs those in Python
truth default-jdk-headless javac   builds and runs the one in Java
truth golang-go       go           builds the one in Go
truth socat           socat        is a receiver
truth gstreamer1.0-tools gst-launch-1.0 is a receiver
truth gstreamer1.0-plugins-good -  has its source of UDP
truth strace          strace       stops a receiver at each call
truth stress-ng       stress-ng    keeps the kernel busy beside a receiver
lab   xz-utils        xz           unpacks the kernel of the QEMU lab
lab   util-linux      flock        keeps two from fetching it at once
lab   debian-archive-keyring -     tells that it comes from Debian
bench iperf           iperf        sends beside our source
bench iperf3          iperf3       sends beside our probe
bench sockperf        sockperf     sends beside our source
bench irtt            irtt         sends beside our source
bench owamp-client    owping       sends beside our probe
bench owamp-server    owampd       answers it
bench iproute2        ip           makes the network namespaces to send between
bench tcpdump         tcpdump      stamps packets where they arrive
bench wireshark-common dumpcap     captures beside quaver capture
bench libpcap0.8      -            compiles the filters of captures
bench time            -            tells memory and CPU time of what it runs
bench linux-perf      perf         watches futex calls beside quaver sync
bench bpftrace        bpftrace     probes the thread library beside quaver sync
bench ltrace          ltrace       stops at each call beside quaver sync
bench mutrace         mutrace      counts locks beside quaver sync, where it is packaged
bench valgrind        valgrind     counts misses and instructions beside quaver sim
bench default-jre-headless java   runs Spark beside quaver query
bench python3         python3      judges the figures and writes the page
"
# Peers to measure beside and receivers to judge by: not every distribution has them, and the rest is measured without.
dispensable=" iperf iperf3 sockperf irtt owamp-client owamp-server wireshark-common linux-perf bpftrace ltrace mutrace default-jdk-headless golang-go socat gstreamer1.0-tools gstreamer1.0-plugins-good strace stress-ng "

is_there() {
    local name="$1" shown_by="$2"
    if [ "$shown_by" != - ]; then
        command -v "$shown_by" >/dev/null
    else
        [ "$(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null)" = installed ]
    fi
}

case "$target" in
build) wanted="build" ;;
test) wanted="build test lab" ;;
bench) wanted="build bench" ;;
lab) wanted="lab" ;;
truth) wanted="build truth" ;;
dist) wanted="build dist" ;;
*)
    echo "setup.sh: unknown target '$target'; use build, test, bench, lab, truth or dist" >&2
    exit 2
    ;;
esac

# The emulator and the kernel of the QEMU lab, and the packages that the Python test needs: into a cache, not into the system.
# Where that fails the tests that need them say so.
fetch_aside() {
    case " $wanted " in
    *" lab "*) "$(dirname "$0")/../instruments/lab/assets/fetch.sh" || echo "setup ($target): without the QEMU lab"
        "$(dirname "$0")/../kmod/headers.sh" >/dev/null || echo "setup ($target): without the headers of its kernel" ;;
    esac
    case " $wanted " in
    *" test "*) "$(dirname "$0")/interop/python-venv.sh" || echo "setup ($target): without Python's packages" ;;
    esac
}

if ! command -v cargo >/dev/null; then
    echo "setup.sh: cargo is not in PATH. Install a Rust toolchain, 1.88 or newer, then try again." >&2
    exit 3
fi

missing=()
while read -r needed_by name shown_by purpose; do
    case " $wanted " in *" ${needed_by:-none} "*) ;; *) continue ;; esac
    if ! is_there "$name" "$shown_by"; then
        [ ${#missing[@]} -gt 0 ] || echo "setup ($target) will install:"
        printf '  %-16s %s\n' "$name" "$purpose"
        missing+=("$name")
    fi
done <<<"$packages"

if [ ${#missing[@]} -eq 0 ]; then
    echo "setup ($target): everything is there"
    fetch_aside
    exit 0
fi

if ! command -v apt-get >/dev/null; then
    echo "setup.sh: no apt-get here. Install what these Debian packages hold, then try again:" >&2
    echo "  ${missing[*]}" >&2
    exit 3
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "setup.sh: not root and no sudo. As root: apt-get install ${missing[*]}" >&2
        exit 3
    fi
    as_root=(sudo)
fi
"${as_root[@]}" apt-get update -qq
wanted_now=()
for name in "${missing[@]}"; do
    if [[ "$dispensable" == *" $name "* ]] && ! apt-cache show "$name" >/dev/null 2>&1; then
        echo "setup ($target): there is no package $name here; what needs it is left out"
    else
        wanted_now+=("$name")
    fi
done
if [ ${#wanted_now[@]} -eq 0 ]; then
    fetch_aside
    exit 0
fi
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${wanted_now[@]}"
fetch_aside
