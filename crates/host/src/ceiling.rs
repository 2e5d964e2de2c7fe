//! What the processors themselves can do, to measure kernels against: multiply-adds in registers, and copies.

#![expect(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    reason = "who measures says how much"
)]

use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use crate::kernels::simd::{Level, level};

/// So many independent sums hide the time that each multiply-add takes.
const SUMS: usize = 12;

/// Multiply-adds of each sum between two looks at the clock.
const STEPS: u64 = 1 << 12;

/// Floating-point operations (`f32`, two for each multiply-add) per second of so many threads together, each of which
/// does nothing else for about `slice`.
pub fn flops(threads: usize, slice: Duration) -> f64 {
    let lanes = match level() {
        Level::Avx512 => 16,
        Level::Avx2 => 8,
        Level::Baseline => 4,
    };
    let operations = 2 * STEPS * (SUMS * lanes) as u64;
    operations as f64 * per_second(threads, slice, || multiply_adds)
}

/// Bytes per second that so many threads together read and write, each of which copies `bytes` of its own again and
/// again for about `slice`.
pub fn copied_bytes(threads: usize, bytes: usize, slice: Duration) -> f64 {
    let copy = || {
        let (from, mut to) = (vec![1u8; bytes], vec![0u8; bytes]);
        move || black_box(&mut to).copy_from_slice(black_box(&from))
    };
    2.0 * bytes as f64 * per_second(threads, slice, copy)
}

/// How often per second so many threads together do what `make` makes for each of them.
fn per_second<W: FnMut()>(threads: usize, slice: Duration, make: impl Fn() -> W + Sync) -> f64 {
    let start = &Barrier::new(threads);
    let make = &make;
    let run = move || {
        let mut work = make();
        work();
        start.wait();
        let begin = Instant::now();
        let mut times = 0;
        loop {
            work();
            times += 1;
            let took = begin.elapsed();
            if took >= slice {
                return f64::from(times) / took.as_secs_f64();
            }
        }
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(run)).collect();
        let own = run();
        // One that panicked has done nothing.
        let of_others = others.into_iter().map(|other| other.join().unwrap_or(0.0));
        own + of_others.sum::<f64>()
    })
}

fn multiply_adds() {
    match level() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the machine has what the level stands for.
        Level::Avx512 => unsafe { avx512() },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Level::Avx2 => unsafe { avx2() },
        _ => baseline(),
    }
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
        for threads in [1, 3] {
            // Far beyond any processor on either side.
            let flops = flops(threads, slice);
            assert!((1e7..1e15).contains(&flops), "{flops}");
            let bytes = copied_bytes(threads, 1 << 16, slice);
            assert!((1e6..1e14).contains(&bytes), "{bytes}");
        }
    }
}
