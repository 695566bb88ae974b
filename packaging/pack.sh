#!/usr/bin/env bash
# Packs what `packaging/install.sh` installs, by package.conf: the same build and commit give the same bytes.
# usage: packaging/pack.sh BUILD OUT FORMAT...
#   BUILD    where cargo put the programs
#   OUT      the folder for the packages
#   FORMAT   tar, debug, deb, rpm or oci
# SOURCE_DATE_EPOCH is the time of all files inside (default: that of the commit).
set -euo pipefail
umask 022
export LC_ALL=C TZ=UTC
if [ $# -lt 3 ]; then
    sed -n '3,6s/^# //p' "$0" >&2
    exit 2
fi
here="$(cd "$(dirname "$0")" && pwd)"
source="$(dirname "$here")"
build="$(realpath "$1")"
mkdir -p "$2"
out="$(realpath "$2")"
shift 2
# shellcheck source=packaging/package.conf
. "$here/package.conf"
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git -C "$source" log -1 --format=%ct)}"
version="$("$build/quaver" --version | cut -d ' ' -f 2)"
machine="$(uname -m)"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

# One archive of a folder's content: order, owners and times depend on nothing but the content.
archive() {
    tar --create --format=gnu --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" "$@"
}

# The tree that every format holds, below usr/.
stage() {
    DESTDIR="$work/tree" PREFIX=/usr "$here/install.sh" "$build" >/dev/null
    local doc="$work/tree/usr/share/doc/quaver"
    mkdir -p "$doc"
    strip --strip-all "$work/tree/usr/bin"/*
    # The programs of `sync bench` keep their names: its pages show them.
    strip --strip-unneeded "$work/tree/usr/lib/quaver"/*.so
    find "$work/tree/usr/share/man" -name '*.1' -exec gzip -9n {} +
    gzip -9nc "$source/CHANGELOG.md" >"$doc/changelog.gz"
    cp "$source/LICENSE-MIT" "$source/LICENSE-APACHE" "$doc/"
    "$here/bill_of_materials.py" "$doc/quaver.cdx.json" "$doc/licences-of-dependencies"
    gzip -9n "$doc/licences-of-dependencies"
    find "$work/tree" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
}

pack_tar() {
    local name="quaver-$version-$machine-linux"
    archive --transform="s,^\.,$name," -C "$work/tree/usr" . | gzip -9n >"$out/$name.tar.gz"
}

pack_debug() {
    (cd "$build" && archive quaver.debug quaver-sim.debug libquaver_preload.so.debug libquaver_qemu_plugin.so.debug) |
        gzip -9n >"$out/quaver-$version-$machine-linux-debug.tar.gz"
}

# What the package does before and after its files go. Nothing is started or enabled by installing it.
scripts_of_removal() {
    stop="if [ -d /run/systemd/system ]; then systemctl --no-reload disable --now $units || true; fi
if [ -s /var/lib/quaver/tune.journal ]; then
    quaver tune revert || echo 'quaver: settings are left changed; the journal in /var/lib/quaver lists them' >&2
fi"
    reload="if [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi"
}

pack_deb() {
    local tree="$work/deb" architecture depends
    architecture="$(dpkg --print-architecture)"
    cp -a "$work/tree" "$tree"
    mkdir -p "$tree/DEBIAN" "$tree/usr/share/lintian/overrides" "$work/shlibs/debian"
    # Debian's zsh reads another folder, and its changelog has another form.
    mv "$tree/usr/share/zsh/site-functions" "$tree/usr/share/zsh/vendor-completions"
    # License texts are part of the file `copyright`.
    rm "$tree/usr/share/doc/quaver"/LICENSE-*
    { cat "$here/deb/copyright"; sed 's/^$/./; s/^/ /' "$source/LICENSE-MIT"; } >"$tree/usr/share/doc/quaver/copyright"
    printf 'quaver (%s-1) unstable; urgency=medium\n\n  * See changelog.gz.\n\n -- %s  %s\n' "$version" "$maintainer" \
        "$(date --rfc-email --date="@$SOURCE_DATE_EPOCH")" | gzip -9n >"$tree/usr/share/doc/quaver/changelog.Debian.gz"
    cp "$here/deb/overrides" "$tree/usr/share/lintian/overrides/quaver"
    # Needed by dpkg-shlibdeps, which finds the oldest C library that has every symbol used.
    printf 'Source: quaver\n\nPackage: quaver\nArchitecture: any\n' >"$work/shlibs/debian/control"
    depends="$(cd "$work/shlibs" && dpkg-shlibdeps -O "$tree"/usr/bin/* "$tree"/usr/lib/quaver/*.so 2>/dev/null)"
    cat >"$tree/DEBIAN/control" <<CONTROL
Package: quaver
Version: $version-1
Architecture: $architecture
Maintainer: $maintainer
Installed-Size: $(find "$tree/usr" -type f -printf '%s\n' | awk '{ sum += int($1 / 1024) + 1 } END { print sum }')
Depends: ${depends#shlibs:Depends=}
Recommends: $recommends
Section: net
Priority: optional
Homepage: $homepage
Description: $summary
$(sed 's/^/ /' <<<"$description")
CONTROL
    scripts_of_removal
    printf '#!/bin/sh\nset -e\nif [ "$1" = remove ]; then\n%s\nfi\n' "$stop" >"$tree/DEBIAN/prerm"
    # A journal with entries says what to put back by hand.
    purge='if [ "$1" = purge ] && [ ! -s /var/lib/quaver/tune.journal ]; then rm -rf /var/lib/quaver /var/lib/private/quaver; fi'
    printf '#!/bin/sh\nset -e\n%s\n%s\n' "$reload" "$purge" >"$tree/DEBIAN/postrm"
    chmod 755 "$tree/DEBIAN/prerm" "$tree/DEBIAN/postrm"
    (cd "$tree" && find usr -type f | sort | xargs -d '\n' md5sum >DEBIAN/md5sums)
    find "$tree" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
    dpkg-deb --root-owner-group --build "$tree" "$out/quaver_$version-1_$architecture.deb" >/dev/null
}

pack_rpm() {
    scripts_of_removal
    mkdir -p "$work/rpm"
    {
        printf 'Name: quaver\nVersion: %s\nRelease: 1\nSummary: %s\nLicense: %s\nURL: %s\n' \
            "$version" "$summary" "$license" "$homepage"
        printf '%%description\n%s\n%%install\ncp -a "%s/tree/." "%%{buildroot}"\n' "$description" "$work"
        printf '%%preun\nif [ "$1" = 0 ]; then\n%s\nfi\n%%postun\n%s\n%%files\n' "$stop" "$reload"
        # Folders that a system without the other programs would not have go with the package.
        (cd "$work/tree" && find usr/lib/quaver usr/share/quaver usr/share/doc/quaver usr/share/zsh usr/share/fish usr/share/bash-completion \
            -type d -printf '%%dir /%p\n')
        (cd "$work/tree" && find usr -type f -printf '/%p\n' | sort)
    } >"$work/rpm/quaver.spec"
    # Nothing is stripped or compressed again, and the package names no host and no time but the commit's.
    rpmbuild -bb --quiet --define "_topdir $work/rpm" --define '_rpmdir %{_topdir}' --define '_buildhost quaver' \
        --define 'debug_package %{nil}' --define '_build_id_links none' --define '__os_install_post %{nil}' \
        --define 'use_source_date_epoch_as_buildtime 1' --define 'clamp_mtime_to_source_date_epoch 1' \
        --define '_binary_payload w9.gzdio' --define "_rpmfilename quaver-$version-1.%{_arch}.rpm" \
        "$work/rpm/quaver.spec" >"$work/rpm/log" 2>&1 || { cat "$work/rpm/log" >&2; return 1; }
    cp "$work/rpm"/quaver-*.rpm "$out/"
}

stage
for format in "$@"; do
    case "$format" in
    tar | debug | deb | rpm) "pack_$format" ;;
    oci)
        "$here/oci_image.sh" "$work/tree" "$out/quaver-$version-$machine.oci.tar" "$version"
        cp "$here/quaver-in-container" "$out/"
        ;;
    *)
        echo "pack: unknown format '$format'; use tar, debug, deb, rpm or oci" >&2
        exit 2
        ;;
    esac
done
cp "$work/tree/usr/share/doc/quaver/quaver.cdx.json" "$out/quaver-$version.cdx.json"
(cd "$out" && find . -maxdepth 1 -type f ! -name SHA256SUMS -printf '%P\n' | sort | xargs -d '\n' sha256sum >SHA256SUMS)
ls -l --block-size=1 "$out" | awk 'NR > 1 { printf "%12d bytes  %s\n", $5, $9 }'
