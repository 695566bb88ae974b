#!/usr/bin/env bash
# Writes a container image as an OCI image layout in one tar file, with no daemon and no base image: the packed tree, and the
# libraries that the programs load, taken from this system.
# usage: packaging/oci_image.sh TREE FILE VERSION
# Formats: OCI image specification 1.0 (image-layout.md, manifest.md, config.md).
set -euo pipefail
umask 022
tree="$1" file="$(realpath -m "$2")" version="$3"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
rootfs="$work/rootfs" blobs="$work/layout/blobs/sha256"
mkdir -p "$rootfs/runs" "$blobs"
mkdir -m 1777 "$rootfs/tmp"
cp -a "$tree/." "$rootfs/"
created="$(date --utc --date="@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)"
case "$(uname -m)" in
x86_64) architecture=amd64 ;;
aarch64) architecture=arm64 ;;
*)
    echo "oci_image: no image for $(uname -m); build on x86_64 or aarch64" >&2
    exit 3
    ;;
esac

# The loader and each library stand where the programs ask for them.
for program in "$rootfs"/usr/bin/* "$rootfs"/usr/lib/quaver/*.so; do
    ldd "$program" | grep -o '/[^ ]*' || true
done | sort -u | while read -r library; do
    install -D -m 755 "$(realpath "$library")" "$rootfs$library"
    owner="$(dpkg-query --search "$(realpath "$library")" "$library" 2>/dev/null | head -n 1 | cut -d : -f 1 || true)"
    if [ -n "$owner" ] && [ -e "/usr/share/doc/$owner/copyright" ]; then
        install -D -m 644 "/usr/share/doc/$owner/copyright" "$rootfs/usr/share/doc/$owner/copyright"
    fi
done

archive() {
    tar --create --format=gnu --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" "$@"
}

# Puts a file among the blobs and prints its descriptor.
blob() {
    local type="$1" from="$2" digest
    digest="$(sha256sum "$from" | cut -d ' ' -f 1)"
    printf '{"mediaType":"%s","digest":"sha256:%s","size":%d' "$type" "$digest" "$(stat -c %s "$from")"
    mv "$from" "$blobs/$digest"
}

archive -C "$rootfs" . >"$work/layer.tar"
content="sha256:$(sha256sum "$work/layer.tar" | cut -d ' ' -f 1)"
gzip -nc "$work/layer.tar" >"$work/layer.tar.gz"
layer="$(blob application/vnd.oci.image.layer.v1.tar+gzip "$work/layer.tar.gz")}"
cat >"$work/config" <<JSON
{"created":"$created","architecture":"$architecture","os":"linux",
"config":{"Env":["PATH=/usr/bin","QUAVER_RUNS=/runs"],"Entrypoint":["/usr/bin/quaver"],"WorkingDir":"/runs",
"Labels":{"org.opencontainers.image.title":"quaver","org.opencontainers.image.version":"$version"}},
"rootfs":{"type":"layers","diff_ids":["$content"]},
"history":[{"created":"$created","comment":"quaver $version and the libraries that it loads"}]}
JSON
config="$(blob application/vnd.oci.image.config.v1+json "$work/config")}"
printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":%s,"layers":[%s]}' \
    "$config" "$layer" >"$work/manifest"
manifest="$(blob application/vnd.oci.image.manifest.v1+json "$work/manifest")"
printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[%s%s]}' "$manifest" \
    ",\"platform\":{\"architecture\":\"$architecture\",\"os\":\"linux\"},\"annotations\":{\"org.opencontainers.image.ref.name\":\"$version\",
\"io.containerd.image.name\":\"localhost/quaver:latest\"}}" \
    >"$work/layout/index.json"
printf '{"imageLayoutVersion":"1.0.0"}' >"$work/layout/oci-layout"
archive -C "$work/layout" blobs index.json oci-layout >"$file"
