#!/usr/bin/env bash
# Links the dylib of agx-fix and the program for Apple silicon, on Linux, and looks at the files: a symbol that Apple's
# libraries do not have is an error. In place of the libraries stand text stubs: that of libSystem comes from the Python
# package ziglang; the others list what this house uses of them and are written here.
# Arguments go to the program's build: `ci/apple-link.sh --features metal`.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v ld64.lld-22 >/dev/null || {
    command -v apt-get >/dev/null || { echo "this check needs Debian's package lld-22" >&2; exit 1; }
    as_root=()
    [ "$(id -u)" -eq 0 ] || as_root=(sudo)
    export DEBIAN_FRONTEND=noninteractive
    "${as_root[@]}" apt-get update -q >&2
    "${as_root[@]}" apt-get install -qy --no-install-recommends lld-22 >&2
}

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
    _class_respondsToSelector _class_addMethod _class_addIvar _class_addProtocol _method_getName _method_getTypeEncoding \
    _method_getImplementation _protocol_getMethodDescription _ivar_getOffset
stub "$sdk/usr/lib/libiconv.tbd" /usr/lib/libiconv.2.dylib _iconv _iconv_open _iconv_close
framework Metal _MTLCreateSystemDefaultDevice _MTLCopyAllDevices
framework Foundation _NSLocalizedDescriptionKey _NSUnderlyingErrorKey _NSGenericException
framework CoreFoundation _CFRelease _CFRetain

# build ARGUMENTS...
build() {
    RUSTC=$compiler RUSTC_BOOTSTRAP=1 SDKROOT=$sdk \
        RUSTFLAGS="-Zunstable-options -Clinker-flavor=darwin-lld -Clinker=ld64.lld-22" \
        cargo build -Zbuild-std=std,panic_abort --target aarch64-apple-darwin --target-dir "$target" "$@"
}

# look FILE KIND: 64-bit Mach-O for ARM, of this kind, as its header says.
look() {
    local header
    header=$(od -An -tx4 -N16 "$1" | tr -s ' ' | sed 's/^ //')
    case $header in
        "feedfacf 0100000c "*" 0000000$2") printf '%s: Mach-O for arm64, %d bytes\n' "$1" "$(stat -c %s "$1")" ;;
        *) echo "$1 begins with $header" >&2; exit 1 ;;
    esac
}

readonly executable=2 dylib=6
build -p agx-fix
look "$target/aarch64-apple-darwin/debug/libagx_fix.dylib" $dylib
for symbol in _agx_fix_statistics _agx_fix_check __mod_init_func; do
    grep -q "$symbol" "$target/aarch64-apple-darwin/debug/libagx_fix.dylib" || { echo "the dylib has no $symbol" >&2; exit 1; }
done
build -p streampool-cli "$@"
look "$target/aarch64-apple-darwin/debug/streampool" $executable
