//! The matrix unit of x86-64 (AMX): whether this process may use it, and its tiles.

use std::arch::asm;
use std::arch::x86_64::{__cpuid, __cpuid_count};
use std::marker::PhantomData;
use std::sync::OnceLock;

/// Rows of a tile.
pub(super) const TILE_ROWS: usize = 16;
/// Bytes of a row of a tile.
pub(super) const ROW_BYTES: usize = 64;
/// Bytes of a tile.
pub(super) const TILE_BYTES: usize = TILE_ROWS * ROW_BYTES;

/// Whether tiles can be multiplied here; asked of the machine once.
pub(super) fn is_available() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE
        .get_or_init(|| has_vectors() && has_tiles() && system_saves_tiles() && is_permitted())
}

/// Whether there are the vector instructions that operands are packed with.
fn has_vectors() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512bf16")
}

fn has_tiles() -> bool {
    /// Of leaf 7 in edx: amx-bf16 and amx-tile.
    const TILES: u32 = 1 << 22 | 1 << 24;
    __cpuid(0).eax >= 7 && __cpuid_count(7, 0).edx & TILES == TILES
}

/// Whether the system saves tiles when it switches threads.
fn system_saves_tiles() -> bool {
    /// Of leaf 1 in ecx: the system has enabled `xgetbv`.
    const ENABLED: u32 = 1 << 27;
    /// Of the register: the configuration of tiles, and their contents.
    const SAVED: u32 = 1 << 17 | 1 << 18;
    if __cpuid(1).ecx & ENABLED == 0 {
        return false;
    }
    let low: u32;
    // SAFETY: the system has enabled the instruction, which only reads a register that is always there.
    unsafe {
        asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") _, options(nomem, nostack, preserves_flags));
    }
    low & SAVED == SAVED
}

/// Asks the system for leave, which it gives to all threads of the process.
fn is_permitted() -> bool {
    const ARCH_PRCTL: u64 = 158;
    const REQUEST_PERMISSION: u64 = 0x1023;
    const TILE_DATA: u64 = 18;
    let result: i64;
    // SAFETY: this call touches no memory of the process; it clobbers what every call does.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") ARCH_PRCTL => result,
            in("rdi") REQUEST_PERMISSION,
            in("rsi") TILE_DATA,
            out("rcx") _,
            out("r11") _,
            options(nostack),
        );
    }
    result == 0
}

/// The tiles of this thread, all of full size. They are given back when it is dropped: as long as a thread has any,
/// switching to another costs more.
pub(super) struct Tiles {
    /// They are this thread's.
    _thread: PhantomData<*const ()>,
}

impl Tiles {
    /// # Safety
    /// Tiles are [available](is_available), and the thread has none yet.
    pub(super) unsafe fn configure() -> Self {
        #[repr(C, align(64))]
        struct Configuration {
            palette: u8,
            start_row: u8,
            reserved: [u8; 14],
            row_bytes: [u16; 16],
            rows: [u8; 16],
        }
        const TILES: usize = 8;
        const FULL: Configuration = {
            let mut full = Configuration {
                palette: 1,
                start_row: 0,
                reserved: [0; 14],
                row_bytes: [0; 16],
                rows: [0; 16],
            };
            let mut tile = 0;
            while tile < TILES {
                full.row_bytes[tile] = ROW_BYTES as u16;
                full.rows[tile] = TILE_ROWS as u8;
                tile += 1;
            }
            full
        };
        static CONFIGURATION: Configuration = FULL;
        // SAFETY: the caller promises that there are tiles; the configuration is a valid one of 64 bytes.
        unsafe {
            asm!("ldtilecfg [{}]", in(reg) &raw const CONFIGURATION, options(readonly, nostack, preserves_flags));
        }
        Tiles {
            _thread: PhantomData,
        }
    }
}

impl Drop for Tiles {
    fn drop(&mut self) {
        // SAFETY: this thread configured its tiles, and nobody reads them any more.
        unsafe { asm!("tilerelease", options(nomem, nostack, preserves_flags)) };
    }
}
