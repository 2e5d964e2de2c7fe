#!/usr/bin/env bash
# Links the dylib of agx-fix, and the program with Metal, for Apple silicon, on Linux, and looks at the files: their headers, the
# libraries that they load, and names that they have to export or import. In place of Apple's libraries stand text stubs. That of
# libSystem comes from the Python package ziglang and is complete: what Apple's does not have is an error. The others are
# written here, and have what this house is known to use: a name that is new here is an error until it is added, and whether
# Apple's libraries have it is for who adds it to find out.
# Arguments go to the program's build: `ci/apple-link.sh --no-default-features`.
set -euo pipefail
cd "$(dirname "$0")/.."

ci/debian-packages.sh lld-22 llvm-22
compiler=$(ci/setup-debian-rust.sh)
target=${CARGO_TARGET_DIR:-target}/apple-link
mkdir -p "$target"
target=$(cd "$target" && pwd)
sdk=$target/sdk
frameworks=$sdk/System/Library/Frameworks
mkdir -p "$sdk/usr/lib" "$frameworks"

if [ ! -e "$sdk/usr/lib/libSystem.tbd" ]; then
    python3 -m pip download --quiet --no-deps --dest "$target/ziglang" ziglang
    python3 - "$target"/ziglang/*.whl >"$sdk/usr/lib/libSystem.tbd.new" <<'END'
import re, sys, zipfile
text = zipfile.ZipFile(sys.argv[1]).read("ziglang/lib/libc/darwin/libSystem.tbd").decode()
# The linker does not know the newest targets; its files for arm64e serve arm64 as well.
text = re.sub(r",\s*arm64e\.x1-\w+", "", text)
print(text.replace("arm64e-macos", "arm64-macos").replace("arm64e-maccatalyst", "arm64-maccatalyst"))
END
    mv "$sdk/usr/lib/libSystem.tbd.new" "$sdk/usr/lib/libSystem.tbd"
fi
# These are libSystem under other names.
ln -sf libSystem.tbd "$sdk/usr/lib/libc.tbd"
ln -sf libSystem.tbd "$sdk/usr/lib/libm.tbd"

# stub FILE INSTALL-NAME SYMBOL...
stub() {
    local file=$1 name=$2
    shift 2
    mkdir -p "$(dirname "$file")"
    {
        printf -- '--- !tapi-tbd\ntbd-version: 4\ntargets: [ arm64-macos ]\ninstall-name: %s\nexports:\n' "'$name'"
        printf "  - targets: [ arm64-macos ]\n    symbols: [ %s ]\n...\n" "$(printf "'%s', " "$@" | sed 's/, $//')"
    } >"$file"
}

framework() {
    local name=$1
    shift
    stub "$frameworks/$name.framework/$name.tbd" "/System/Library/Frameworks/$name.framework/Versions/A/$name" "$@"
}

stub "$sdk/usr/lib/libobjc.tbd" /usr/lib/libobjc.A.dylib \
    _sel_registerName _sel_getName _objc_msgSend _objc_msgSendSuper _objc_getClass _objc_getProtocol _objc_alloc _objc_alloc_init \
    _objc_retain _objc_release _objc_autorelease _objc_autoreleaseReturnValue _objc_retainAutorelease \
    _objc_retainAutoreleaseReturnValue _objc_retainAutoreleasedReturnValue _objc_claimAutoreleasedReturnValue _objc_retainBlock \
    _objc_opt_class _objc_autoreleasePoolPush _objc_autoreleasePoolPop _objc_allocateClassPair _objc_registerClassPair \
    _objc_exception_throw _objc_begin_catch _objc_end_catch _object_getClass _object_getClassName _class_getName _class_getSuperclass \
    _class_copyMethodList _class_getInstanceMethod _class_getInstanceVariable _class_getMethodImplementation _class_replaceMethod \
    _class_isMetaClass _class_respondsToSelector _class_addMethod _class_addIvar _class_addProtocol _method_getName _method_getTypeEncoding \
    _method_getImplementation _protocol_getMethodDescription _ivar_getOffset
stub "$sdk/usr/lib/libiconv.tbd" /usr/lib/libiconv.2.dylib _iconv _iconv_open _iconv_close
framework Metal _MTLCreateSystemDefaultDevice _MTLCopyAllDevices
framework Foundation _NSLocalizedDescriptionKey _NSUnderlyingErrorKey _NSGenericException
framework CoreFoundation _CFRelease _CFRetain
framework CoreGraphics _CGMainDisplayID
framework IOKit _IORegistryEntryIDMatching _IOServiceGetMatchingService _IORegistryEntryCreateCFProperty _IOObjectRelease

# build ARGUMENTS... Quickly: nobody runs it. Nothing is stripped, for which there is no tool.
build() {
    RUSTC=$compiler RUSTC_BOOTSTRAP=1 SDKROOT=$sdk \
        RUSTFLAGS="-Zunstable-options -Clinker-flavor=darwin-lld -Clinker=ld64.lld-22" \
        CARGO_PROFILE_DEV_DEBUG=false CARGO_PROFILE_DEV_STRIP=none \
        cargo build --config 'profile.dev.package."*".opt-level=0' -Zbuild-std=std,panic_abort \
        --target aarch64-apple-darwin --target-dir "$target" "$@"
}

wrong() { echo "$*" >&2; exit 1; }

# look FILE KIND LIBRARY...: 64-bit Mach-O for ARM, of this kind, that loads these libraries.
look() {
    local file=$1 kind=$2 header loaded library
    shift 2
    header=$(od -An -tx4 -N16 "$file" | tr -s ' ' | sed 's/^ //')
    case $header in
        "feedfacf 0100000c "*" 0000000$kind") printf '%s: Mach-O for arm64, %d bytes\n' "$file" "$(stat -c %s "$file")" ;;
        *) wrong "$file begins with $header" ;;
    esac
    loaded=$(llvm-objdump-22 --macho --dylibs-used "$file")
    for library in "$@"; do
        grep -q "/$library " <<<"$loaded" || wrong "$file does not load $library: $loaded"
    done
}

# names FILE WAY NAME...: it has these names, which llvm-nm lists when asked in this way.
names() {
    local file=$1 way=$2 found name
    shift 2
    found=$(llvm-nm-22 "$way" --extern-only --just-symbol-name "$file")
    for name in "$@"; do
        grep -qx "$name" <<<"$found" || wrong "$file has no $name ($way)"
    done
}

# section FILE NAME KIND: it has this section, of this kind.
section() {
    local headers
    headers=$(llvm-objdump-22 --macho --private-headers "$1")
    grep -A 9 "sectname $2\$" <<<"$headers" | grep " type $3\$" >/dev/null || wrong "$1 has no $2 for $3"
}

readonly executable=2 dylib=6
build -p agx-fix
library=$target/aarch64-apple-darwin/debug/libagx_fix.dylib
look "$library" $dylib Metal CoreGraphics libobjc.A.dylib
names "$library" --defined-only _agx_fix_statistics _agx_fix_check
names "$library" --undefined-only _MTLCreateSystemDefaultDevice _MTLCopyAllDevices _class_replaceMethod
section "$library" __mod_init_func S_MOD_INIT_FUNC_POINTERS
section "$library" __interpose S_INTERPOSING

build -p streampool-cli --features metal "$@"
program=$target/aarch64-apple-darwin/debug/streampool
look "$program" $executable Metal Foundation CoreGraphics IOKit
names "$program" --undefined-only _MTLCreateSystemDefaultDevice _MTLCopyAllDevices _objc_msgSend
