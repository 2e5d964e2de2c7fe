//! Which vector instructions this machine has, and loops compiled once for each kind.

use std::sync::atomic::{AtomicU8, Ordering};

/// The vector instructions that kernels are compiled for, in rising order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Level {
    /// What the target always has: SSE2 on x86-64, NEON on aarch64.
    Baseline = 1,
    /// AVX2, FMA and F16C.
    Avx2 = 2,
    /// AVX-512 F, BW, DQ and VL besides.
    Avx512 = 3,
}

static LEVEL: AtomicU8 = AtomicU8::new(0);

/// The best level of this machine.
#[inline]
pub(crate) fn level() -> Level {
    #[cfg(test)]
    if let Some(level) = forced::LEVEL.get() {
        return level;
    }
    match LEVEL.load(Ordering::Relaxed) {
        3 => Level::Avx512,
        2 => Level::Avx2,
        1 => Level::Baseline,
        _ => detect(),
    }
}

#[cold]
fn detect() -> Level {
    let level = best();
    LEVEL.store(level as u8, Ordering::Relaxed);
    level
}

#[cfg(target_arch = "x86_64")]
fn best() -> Level {
    let avx2 = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c");
    let avx512 = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl");
    match (avx2, avx512) {
        (true, true) => Level::Avx512,
        (true, false) => Level::Avx2,
        _ => Level::Baseline,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn best() -> Level {
    Level::Baseline
}

/// Whether products can be computed by the matrix unit.
pub(crate) fn has_matrix_unit() -> bool {
    #[cfg(test)]
    if forced::LEVEL.get().is_some() {
        return false;
    }
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    return super::amx::is_available();
    #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
    return false;
}

/// Whether there are instructions, at the level, that multiply four bytes with four and add all to a sum.
pub(crate) fn has_byte_dots() -> bool {
    match level() {
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => is_x86_feature_detected!("avx512vnni"),
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => is_x86_feature_detected!("avxvnni"),
        _ => false,
    }
}

/// The names of the instructions of this machine that kernels use, beyond those that all have.
#[expect(clippy::disallowed_methods, reason = "as many as are written here")]
pub(crate) fn features() -> Vec<String> {
    let names: &[&str] = match level() {
        Level::Avx512 => &[
            "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512dq", "avx512vl",
        ],
        Level::Avx2 => &["avx2", "fma", "f16c"],
        Level::Baseline if cfg!(target_arch = "aarch64") => &["neon"],
        Level::Baseline if cfg!(target_arch = "x86_64") => &["sse2"],
        Level::Baseline => &[],
    };
    let unit = has_matrix_unit().then_some("amx-bf16");
    let dots = has_byte_dots().then_some(match level() {
        Level::Avx512 => "avx512vnni",
        _ => "avxvnni",
    });
    names
        .iter()
        .copied()
        .chain(dots)
        .chain(unit)
        .map(str::to_owned)
        .collect()
}

/// How a machine multiplies and adds.
pub(crate) trait Machine {
    /// Whether `fma` rounds once.
    const FUSED: bool;

    /// `x * y + z`.
    fn fma(x: f32, y: f32, z: f32) -> f32;
}

/// A machine with fused multiply-add.
pub(crate) struct Fused;

impl Machine for Fused {
    const FUSED: bool = true;

    #[inline(always)]
    fn fma(x: f32, y: f32, z: f32) -> f32 {
        x.mul_add(y, z)
    }
}

/// A machine without; there, `mul_add` would be a call.
#[cfg(not(target_arch = "aarch64"))]
pub(crate) struct Separate;

#[cfg(not(target_arch = "aarch64"))]
impl Machine for Separate {
    const FUSED: bool = false;

    #[inline(always)]
    fn fma(x: f32, y: f32, z: f32) -> f32 {
        x * y + z
    }
}

/// What every machine of this architecture is.
#[cfg(not(target_arch = "aarch64"))]
pub(crate) type Always = Separate;
// Every 64-bit ARM has fused multiply-add.
#[cfg(target_arch = "aarch64")]
pub(crate) type Always = Fused;

/// Defines a function whose body is compiled for each [`Level`]; a call takes the best one. What the body
/// calls must be `#[inline(always)]` to be compiled along with it. With a name in angle brackets, that stands
/// for the [`Machine`] in the body.
macro_rules! vectorised {
    (
        $(#[$meta:meta])*
        $vis:vis unsafe fn $name:ident [$($generic:ident : $bound:path),*] (
            $($arg:ident : $type:ty),* $(,)?
        ) $(-> $result:ty)? $body:block
    ) => {
        $crate::kernels::simd::vectorised! {
            $(#[$meta])*
            $vis unsafe fn $name <AnyMachine> [$($generic : $bound),*] ($($arg : $type),*) $(-> $result)? $body
        }
    };
    (
        $(#[$meta:meta])*
        $vis:vis unsafe fn $name:ident <$machine:ident> [$($generic:ident : $bound:path),*] (
            $($arg:ident : $type:ty),* $(,)?
        ) $(-> $result:ty)? $body:block
    ) => {
        $(#[$meta])*
        $vis unsafe fn $name<$($generic: $bound),*>($($arg: $type),*) $(-> $result)? {
            #[inline(always)]
            #[allow(clippy::too_many_arguments)]
            unsafe fn body<$machine: $crate::kernels::simd::Machine, $($generic: $bound),*>(
                $($arg: $type),*
            ) $(-> $result)? $body

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
            #[allow(clippy::too_many_arguments)]
            unsafe fn avx512<$($generic: $bound),*>($($arg: $type),*) $(-> $result)? {
                // SAFETY: the caller's promises are passed on unchanged.
                unsafe { body::<$crate::kernels::simd::Fused, $($generic),*>($($arg),*) }
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c")]
            #[allow(clippy::too_many_arguments)]
            unsafe fn avx2<$($generic: $bound),*>($($arg: $type),*) $(-> $result)? {
                // SAFETY: the caller's promises are passed on unchanged.
                unsafe { body::<$crate::kernels::simd::Fused, $($generic),*>($($arg),*) }
            }

            // SAFETY: the level says that the machine has the instructions; the caller's promises are
            // passed on unchanged.
            unsafe {
                match $crate::kernels::simd::level() {
                    #[cfg(target_arch = "x86_64")]
                    $crate::kernels::simd::Level::Avx512 => avx512::<$($generic),*>($($arg),*),
                    #[cfg(target_arch = "x86_64")]
                    $crate::kernels::simd::Level::Avx2 => avx2::<$($generic),*>($($arg),*),
                    _ => body::<$crate::kernels::simd::Always, $($generic),*>($($arg),*),
                }
            }
        }
    };
}
pub(crate) use vectorised;

/// Tests run each level that the machine has, on their own thread.
#[cfg(test)]
pub(crate) mod forced {
    use std::cell::Cell;

    use super::Level;

    thread_local! {
        pub(super) static LEVEL: Cell<Option<Level>> = const { Cell::new(None) };
        static ALL_PRODUCTS: Cell<bool> = const { Cell::new(false) };
    }

    /// Calls `f` with every product that the matrix unit can compute computed by it, however small. If this machine
    /// has none, says so instead.
    pub(crate) fn on_matrix_unit(f: impl FnOnce()) {
        if !super::has_matrix_unit() {
            println!("skipped: this machine has no matrix unit that kernels use");
            return;
        }
        ALL_PRODUCTS.set(true);
        f();
        ALL_PRODUCTS.set(false);
    }

    /// Whether the matrix unit takes what it would not be worth for.
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    pub(crate) fn takes_all_products() -> bool {
        ALL_PRODUCTS.get()
    }

    /// The levels that this machine has.
    pub(crate) fn levels() -> impl Iterator<Item = Level> {
        let all = [Level::Baseline, Level::Avx2, Level::Avx512];
        all.into_iter().filter(|&level| level <= super::best())
    }

    /// The level that this thread is at, if it is none of its own choice.
    pub(crate) fn current() -> Option<Level> {
        LEVEL.get()
    }

    /// Calls `f` at this level, or as usual, on this thread.
    pub(crate) fn at<R>(level: Option<Level>, f: impl FnOnce() -> R) -> R {
        let before = LEVEL.replace(level);
        let result = f();
        LEVEL.set(before);
        result
    }

    /// Calls `f` once at each level, without the matrix unit.
    pub(crate) fn at_each_level(mut f: impl FnMut(Level)) {
        for level in levels() {
            at(Some(level), || f(level));
        }
    }
}
