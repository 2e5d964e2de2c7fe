//! Fourier transforms beside sums of waves.

use std::f64::consts::TAU;

use crate::common::{Rng, pool};
use streampool_tensor::{DType, Fourier, Tensor};

fn random(count: usize, seed: u64) -> Vec<f64> {
    let mut choices = Rng::new(seed);
    let value = |choices: &mut Rng| choices.between(-100, 100) as f64 / 16.0;
    (0..count).map(|_| value(&mut choices)).collect()
}

/// Frequency `k` of pairs of a real and an imaginary part.
fn frequency(x: &[f64], k: usize, sign: f64) -> [f64; 2] {
    let count = x.len() / 2;
    let mut sum = [0.0; 2];
    for (j, pair) in x.as_chunks::<2>().0.iter().enumerate() {
        let (sin, cos) = (sign * TAU * (j * k % count) as f64 / count as f64).sin_cos();
        sum[0] += pair[0] * cos - pair[1] * sin;
        sum[1] += pair[0] * sin + pair[1] * cos;
    }
    sum
}

/// One product, one division, several, a large prime factor, and a prime.
const LENGTHS: [usize; 9] = [1, 255, 257, 512, 2 * 257, 1000, 3 * 331, 4096, 9973];

#[test]
fn transforms_of_any_length_are_sums_of_waves() {
    let pool = pool();
    for length in LENGTHS {
        let x = random(2 * length, length as u64);
        let on_device = Tensor::from_slice(&pool, &x, &[1, length, 2]).unwrap();
        let real = on_device.narrow(2, 0, 1).unwrap();
        let of_real: Vec<f64> = x.chunks(2).flat_map(|pair| [pair[0], 0.0]).collect();
        let scale = (length as f64).sqrt() * 40.0;
        for (made, x, sign, scale) in [
            (on_device.fft(1, length), &x, -1.0, scale),
            (on_device.ifft(1, length), &x, 1.0, scale / length as f64),
            (real.fft(1, length), &of_real, -1.0, scale),
        ] {
            let made: Vec<f64> = made.unwrap().to_vec().unwrap();
            for k in (0..length).step_by(1 + length / 20) {
                let mut want = frequency(x, k, sign);
                if sign > 0.0 {
                    want = want.map(|part| part / length as f64);
                }
                let got = [made[2 * k], made[2 * k + 1]];
                let off = [0, 1].map(|part| (got[part] - want[part]).abs());
                assert!(
                    off.iter().all(|off| *off < 1e-12 * scale),
                    "{length}: {got:?} {want:?}"
                );
            }
        }
    }
}

#[test]
fn the_first_half_of_frequencies_is_enough_for_real_elements() {
    let pool = pool();
    for length in LENGTHS {
        let x = random(3 * length, 7);
        let real = Tensor::from_slice(&pool, &x, &[3, length, 1]).unwrap();
        let half = Fourier::forward(&pool, DType::F64, length, length / 2 + 1).unwrap();
        let half = half.apply(&real, 1).unwrap();
        assert_eq!(half.shape(), [3, length / 2 + 1, 2]);
        let back: Vec<f64> = half.irfft(1, length).unwrap().to_vec().unwrap();
        let off = back.iter().zip(&x).map(|(back, x)| (back - x).abs());
        assert!(off.fold(0.0, f64::max) < 1e-11, "{length}");
    }
}

#[test]
fn single_floats_stay_accurate() {
    let pool = pool();
    for length in [16000, 16384, 15991] {
        let x = random(2 * length, 3);
        let wide = Tensor::from_slice(&pool, &x, &[length, 2]).unwrap();
        let single = wide.to_dtype(DType::F32).unwrap();
        let want: Vec<f64> = wide.fft(0, length).unwrap().to_vec().unwrap();
        let got: Vec<f32> = single.fft(0, length).unwrap().to_vec().unwrap();
        let most = want
            .iter()
            .fold(0.0, |most: f64, want| most.max(want.abs()));
        let off = got
            .iter()
            .zip(&want)
            .map(|(got, want)| (f64::from(*got) - want).abs());
        assert!(off.fold(0.0, f64::max) < 2e-6 * most, "{length}");
    }
}

#[test]
fn frames_are_views_that_overlap() {
    let pool = pool();
    let x = Tensor::arange(&pool, 0, 10, 1, DType::I32).unwrap();
    let frames = x.frames(0, 4, 3).unwrap();
    assert_eq!(frames.shape(), [3, 4]);
    let values: Vec<i32> = frames.to_vec().unwrap();
    assert_eq!(values, [0, 1, 2, 3, 3, 4, 5, 6, 6, 7, 8, 9]);
    assert_eq!(x.frames(0, 10, usize::MAX).unwrap().shape(), [1, 10]);
    assert!(x.frames(0, 11, 1).is_err() && x.frames(0, 4, 0).is_err());
}
