#!/usr/bin/env bash
# Makes the workspace in which the code for Metal builds on Linux, against the imitation of it in `testing/metal-sim`.
#
# `objc2-metal` names Apple's framework in one link attribute that other systems refuse. So a mirror of the workspace
# is made below the target directory, in which a copy of that crate stands in, with the attribute for Apple only.
# Prints the mirror's path; what is built there needs the flags that `ci/metal-sim.sh` gives.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD

mkdir -p "${CARGO_TARGET_DIR:-target}/metal-sim"
mirror=$(cd "${CARGO_TARGET_DIR:-target}/metal-sim" && pwd)

# The crate as cargo downloaded it, and its copy.
cargo fetch --quiet >&2
original=$(cargo metadata --format-version 1 --offline |
    grep -o '"manifest_path":"[^"]*/objc2-metal-[^"]*/Cargo.toml"' | head -n 1 | cut -d '"' -f 4)
copy=$mirror/$(basename "$(dirname "$original")")
if [ ! -e "$copy" ]; then
    rm -rf "$copy.new"
    cp -r "$(dirname "$original")" "$copy.new"
    attribute='#\[link(name = "Metal", kind = "framework")\]'
    grep -q "^$attribute\$" "$copy.new/src/generated/mod.rs"
    sed -i "s/^$attribute\$/#[cfg_attr(target_vendor = \"apple\", link(name = \"Metal\", kind = \"framework\"))]/" \
        "$copy.new/src/generated/mod.rs"
    mv "$copy.new" "$copy"
fi

# The mirror. Files that say the same are left alone, or cargo would build everything again.
for folder in crates apple testing bench; do
    ln -sfn "$root/$folder" "$mirror/$folder"
done
{
    cat Cargo.toml
    printf '\n[patch.crates-io]\nobjc2-metal = { path = "%s" }\n' "$copy"
} >"$mirror/Cargo.toml.new"
cmp -s "$mirror/Cargo.toml.new" "$mirror/Cargo.toml" || mv "$mirror/Cargo.toml.new" "$mirror/Cargo.toml"
rm -f "$mirror/Cargo.toml.new"
[ -e "$mirror/Cargo.lock" ] && [ "$mirror/Cargo.lock" -nt Cargo.lock ] || cp Cargo.lock "$mirror/Cargo.lock"

# `objc2` links with these two, whose names are in the imitation: an empty library satisfies the linker.
mkdir -p "$mirror/empty"
for library in objc gnustep-base; do
    [ -e "$mirror/empty/lib$library.a" ] || printf '!<arch>\n' >"$mirror/empty/lib$library.a"
done
echo "$mirror"
