//! What the processors themselves can do, to measure kernels against: multiply-adds in registers, and copies.

use std::hint::black_box;
use std::time::Duration;

use streampool_console::Result;
use streampool_console::threads::per_second;

/// So many independent sums hide the time that each multiply-add takes.
const SUMS: usize = 12;

/// Multiply-adds of each sum between two looks at the clock.
const STEPS: u64 = 1 << 12;

/// What a processor multiplies by, and how many numbers at a time.
type Multiplier = (fn(), usize);

fn multiplier() -> Multiplier {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has these instructions.
            return (|| unsafe { avx512() }, 16);
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: as above.
            return (|| unsafe { avx2() }, 8);
        }
    }
    (baseline, 4)
}

/// Floating-point operations (`f32`, two for each multiply-add) per second of so many threads together, each of which
/// does nothing else for about `slice`.
pub fn flops(threads: usize, slice: Duration) -> Result<f64> {
    let (multiply_adds, lanes) = multiplier();
    let worker = move || {
        multiply_adds();
        Ok(2 * STEPS * (SUMS * lanes) as u64)
    };
    per_second(&mut vec![worker; threads], slice)
}

/// Bytes per second that so many threads together read and write, each of which copies `bytes` of its own again and
/// again for about `slice`.
pub fn copied_bytes(threads: usize, bytes: usize, slice: Duration) -> Result<f64> {
    let worker = |_| {
        let (from, mut to) = (vec![1u8; bytes], vec![0u8; bytes]);
        move || {
            black_box(&mut to).copy_from_slice(black_box(&from));
            Ok(2 * bytes as u64)
        }
    };
    per_second(&mut (0..threads).map(worker).collect::<Vec<_>>(), slice)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn avx512() {
    use std::arch::x86_64::{_mm512_fmadd_ps, _mm512_set1_ps};
    let (factor, term) = (_mm512_set1_ps(0.5), _mm512_set1_ps(1.0));
    let mut sums = black_box([term; SUMS]);
    for _ in 0..STEPS {
        for sum in &mut sums {
            *sum = _mm512_fmadd_ps(*sum, factor, term);
        }
    }
    black_box(sums);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn avx2() {
    use std::arch::x86_64::{_mm256_fmadd_ps, _mm256_set1_ps};
    let (factor, term) = (_mm256_set1_ps(0.5), _mm256_set1_ps(1.0));
    let mut sums = black_box([term; SUMS]);
    for _ in 0..STEPS {
        for sum in &mut sums {
            *sum = _mm256_fmadd_ps(*sum, factor, term);
        }
    }
    black_box(sums);
}

fn baseline() {
    let mut sums = black_box([[1f32; 4]; SUMS]);
    for _ in 0..STEPS {
        for sum in &mut sums {
            *sum = sum.map(|value| value * 0.5 + 1.0);
        }
    }
    black_box(sums);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_are_measured_from_one_thread_and_from_more() {
        let slice = Duration::from_millis(2);
        // The best of several: on a busy machine a thread may find no processor for longer than the slice.
        let best = |rate: &dyn Fn() -> f64| (0..10).map(|_| rate()).fold(0.0, f64::max);
        for threads in [1, 3] {
            // Far beyond any processor on either side.
            let flops = best(&|| flops(threads, slice).unwrap());
            assert!((1e7..1e15).contains(&flops), "{flops}");
            let bytes = best(&|| copied_bytes(threads, 1 << 16, slice).unwrap());
            assert!((1e6..1e14).contains(&bytes), "{bytes}");
        }
    }
}
