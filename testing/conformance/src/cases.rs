//! Random ops of every kind, whose results on one device are compared with those on another.

mod draw;
mod linalg;

pub use crate::case::Case;
use crate::rng::Rng;

impl Case {
    /// Consecutive numbers from here on are of all kinds of ops.
    pub const KINDS: u64 = draw::KINDS.len() as u64;

    /// The case of this number: the same in every run.
    ///
    /// What a device compiles a kernel for (types, functions) is drawn by itself and comes again after some
    /// rounds, while shapes, layouts and values do not: many cases need few kernels.
    pub fn random(number: u64) -> Case {
        let draw = draw::KINDS[(number % Self::KINDS) as usize];
        let round = number / Self::KINDS;
        let mut rng = Rng::new(number);
        loop {
            let mut kinds = Rng::new(round % draw::ROUNDS);
            if let Some((op, operands)) = draw(&mut kinds, &mut rng) {
                return Case::new(op, operands);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use streampool_device::{Span, View};

    use super::*;
    use crate::num::Num;

    #[test]
    fn cases_repeat_and_are_of_every_kind_of_op() {
        let mut kinds = BTreeSet::new();
        for number in 0..Case::KINDS {
            let (one, two) = (Case::random(number), Case::random(number));
            assert_eq!(format!("{one:?}"), format!("{two:?}"));
            kinds.insert(one.op().kind().name());
        }
        // Every kind but the empty op, copies from and to the host, and replays.
        assert_eq!(kinds.len(), 22, "{kinds:?}");
    }

    #[test]
    fn what_is_drawn_is_right() {
        for number in 0..200 * Case::KINDS {
            let case = Case::random(number);
            let operands: Vec<_> = case.operands().collect();
            let op = case.op().try_map(|_, _, &index| {
                let (dtype, layout, bytes) = &operands[index];
                let span = Span {
                    handle: index as u64,
                    offset: 0,
                    bytes: bytes.len(),
                };
                View::new(span, *dtype, *layout)
            });
            let checked = op.and_then(|op| op.validate());
            assert_eq!(checked, Ok(()), "{number}: {case:?}");
        }
    }

    #[test]
    fn wrong_elements_and_stray_bytes_are_found() {
        for number in 0..Case::KINDS {
            let case = Case::random(number);
            let memory: Vec<Vec<u8>> = case.operands().map(|it| it.2.to_vec()).collect();
            let right = case.written(&memory).expect("nothing is written");
            assert_eq!(case.compare(&right, &right), Ok(()));
            let target = case.targets()[0];
            let Some((dtype, layout, _)) = case.operands().nth(target) else {
                panic!("a target is an operand");
            };
            if layout.elements() == 0 {
                continue;
            }
            let mut stray = memory.clone();
            *stray[target].last_mut().expect("a guard") ^= 1;
            assert!(case.written(&stray).is_err());
            let mut wrong = right.clone();
            let first = &mut wrong[0][..dtype.size()];
            match dtype.is_float() {
                false => first[0] ^= 1,
                true if Num::load(first, dtype).is_nan() => Num::Float(1.0).store(dtype, first),
                true => Num::Float(f64::NAN).store(dtype, first),
            }
            assert!(case.compare(&wrong, &right).is_err(), "{number}: {case:?}");
        }
    }
}
