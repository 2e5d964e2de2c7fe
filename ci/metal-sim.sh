#!/usr/bin/env bash
# Runs the code for Metal on Linux, against the imitation of it in `crates/metal-sim`.
#
# `objc2-metal` names Apple's framework in one link attribute that other systems refuse. So a mirror of the workspace
# is made below the target directory, in which a copy of that crate stands in, with the attribute for Apple only.
# Arguments go to cargo test: `ci/metal-sim.sh -p streampool-metal`, and `--sanitizer address` or `--sanitizer thread`
# watches the tests as `ci/asan.sh` and `ci/tsan.sh` do.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD

sanitizer=none
if [ "${1:-}" = --sanitizer ]; then
    sanitizer=${2:-}
    shift 2
fi
case " $*" in
    *" -p"* | *" --package"*) ;;
    *)
        for crate in metal-sim metal agx-fix; do
            [ -e "crates/$crate/Cargo.toml" ] || continue
            set -- -p "$(sed -n 's/^name = "\(.*\)"/\1/p' "crates/$crate/Cargo.toml" | head -n 1)" "$@"
        done
        ;;
esac

mkdir -p "${CARGO_TARGET_DIR:-target}/metal-sim"
mirror=$(cd "${CARGO_TARGET_DIR:-target}/metal-sim" && pwd)

# The crate as cargo downloaded it, and its copy.
cargo fetch --quiet
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
ln -sfn "$root/crates" "$mirror/crates"
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

flags="--cfg metal_sim -Lnative=$mirror/empty"
host=$(rustc -vV | sed -n 's/^host: //p')
cd "$mirror"
case $sanitizer in
    none)
        export RUSTFLAGS=$flags RUSTDOCFLAGS=$flags
        exec cargo test --no-fail-fast --target-dir "$mirror/target" "$@"
        ;;
    address)
        export RUSTC_BOOTSTRAP=1
        export RUSTFLAGS="$flags -Zsanitizer=address -Cunsafe-allow-abi-mismatch=sanitizer --cfg sanitize_address"
        export ASAN_OPTIONS="detect_leaks=1 detect_stack_use_after_return=1 strict_init_order=1"
        exec cargo test --tests --no-fail-fast --target "$host" --target-dir "$mirror/asan" "$@"
        ;;
    thread)
        compiler=$(CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target} "$root/ci/setup-debian-rust.sh")
        export RUSTC=$compiler RUSTC_BOOTSTRAP=1
        export RUSTFLAGS="$flags -Zsanitizer=thread --cfg sanitize_thread"
        # The one exemption: objc2 stores a selector it looked up for all threads without ordering.
        printf 'race:objc2::__macro_helpers::cache::CachedSel\n' >"$mirror/tsan.suppressions"
        export TSAN_OPTIONS="halt_on_error=1 exitcode=66 suppressions=$mirror/tsan.suppressions"
        exec cargo test --tests --no-fail-fast -Zbuild-std --target "$host" --target-dir "$mirror/tsan" "$@"
        ;;
    *)
        echo "--sanitizer takes address or thread" >&2
        exit 2
        ;;
esac
