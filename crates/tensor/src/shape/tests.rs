//! The rules of shapes, on examples and on random ones, beside rules that count otherwise.

use streampool_conformance::rng::Rng;
use streampool_device::{Layout, MAX_ELEMENTS};

use super::{broadcast, infer, reshaped};

#[test]
fn one_size_is_inferred() {
    assert_eq!(&*infer("t", &[2, 3, 4], &[6, -1]).unwrap(), &[6, 4]);
    assert_eq!(&*infer("t", &[], &[-1, 1]).unwrap(), &[1, 1]);
    assert_eq!(&*infer("t", &[0, 3], &[3, -1]).unwrap(), &[3, 0]);
    assert!(infer("t", &[0, 3], &[0, -1]).is_err());
    assert!(infer("t", &[6], &[-1, -1]).is_err());
    assert!(infer("t", &[6], &[-2]).is_err());
    assert!(infer("t", &[6], &[4usize]).is_err());
    assert!(infer("t", &[6], &[usize::MAX, usize::MAX]).is_err());
    assert!(infer("t", &[1], &[1; 9]).is_err());
}

#[test]
fn runs_of_axes_are_reshaped_in_place() {
    let strided = |shape: &[usize], strides: &[isize]| Layout::strided(shape, strides, 40).unwrap();
    let seen = reshaped(&strided(&[2, 3, 4], &[12, 4, 1]), &[6, 2, 2]).unwrap();
    assert_eq!((seen.strides(), seen.offset()), (&[4, 2, 1][..], 40));
    // The two axes at the end are one run, the first is its own.
    let padded = strided(&[2, 3, 4], &[20, 4, 1]);
    assert_eq!(reshaped(&padded, &[2, 12]).unwrap().strides(), &[20, 1]);
    assert!(reshaped(&padded, &[24]).is_none());
    assert!(reshaped(&strided(&[3, 2], &[1, 3]), &[6]).is_none());
    // Broadcast and reversed axes are runs, too.
    assert_eq!(
        reshaped(&strided(&[2, 4], &[0, 0]), &[8])
            .unwrap()
            .strides(),
        &[0]
    );
    assert_eq!(
        reshaped(&strided(&[2, 3], &[-3, -1]), &[6])
            .unwrap()
            .strides(),
        &[-1]
    );
    // Axes of one do not count.
    let ones = strided(&[3, 1, 1], &[1, 77, 99]);
    assert_eq!(reshaped(&ones, &[1, 3, 1]).unwrap().shape(), &[1, 3, 1]);
    assert_eq!(reshaped(&strided(&[], &[]), &[1, 1]).unwrap().offset(), 40);
}

#[test]
fn shapes_broadcast_from_the_right() {
    let join = |a: &[usize], b: &[usize]| broadcast("t", "b", a, b).map(|dims| dims.to_vec());
    assert_eq!(join(&[2, 3], &[3]), Ok(vec![2, 3]));
    assert_eq!(join(&[1, 3], &[4, 2, 1]), Ok(vec![4, 2, 3]));
    assert_eq!(join(&[1], &[0]), Ok(vec![0]));
    assert_eq!(join(&[], &[2]), Ok(vec![2]));
    assert!(join(&[2, 3], &[2]).is_err());
}

/// `2^twos * 3^threes`: products of many are counted without a product.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Powers {
    twos: u32,
    threes: u32,
}

impl Powers {
    fn number(self) -> usize {
        2usize.pow(self.twos) * 3usize.pow(self.threes)
    }

    fn product(all: impl IntoIterator<Item = Powers>) -> Powers {
        all.into_iter()
            .fold(Powers::default(), |product, each| Powers {
                twos: product.twos + each.twos,
                threes: product.threes + each.threes,
            })
    }

    fn quotient(self, by: Powers) -> Option<Powers> {
        Some(Powers {
            twos: self.twos.checked_sub(by.twos)?,
            threes: self.threes.checked_sub(by.threes)?,
        })
    }

    /// Whether a tensor may have so many elements.
    fn is_countable(self) -> bool {
        let room = 48u32.checked_sub(self.twos);
        room.is_some_and(|room| 3u128.pow(self.threes) <= 1 << room)
    }

    /// These, each dealt to some axis.
    fn dealt(self, choices: &mut Rng, axes: usize) -> Vec<Powers> {
        let mut dealt = vec![Powers::default(); axes];
        (0..self.twos).for_each(|_| dealt[choices.below(axes)].twos += 1);
        (0..self.threes).for_each(|_| dealt[choices.below(axes)].threes += 1);
        dealt
    }
}

/// A size as it is given.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Given {
    Powers(Powers),
    Zero,
    Unknown,
    Negative,
    /// The square of it wraps around to one.
    Huge,
}

#[test]
fn what_is_inferred_is_counted_by_powers() {
    let mut choices = Rng::new(1);
    let mut met = [0; 4];
    for _ in 0..40_000 {
        let twos = choices.pick(&[0, 1, 3, 20, 44]);
        let count = Powers {
            twos,
            threes: choices.below(3) as u32,
        };
        let axes = 1 + choices.below(4);
        let from = count.dealt(&mut choices, axes);
        let mut from: Vec<usize> = from.into_iter().map(Powers::number).collect();
        let is_empty = choices.chance(4);
        if is_empty {
            from[choices.below(axes)] = 0;
        }
        let axes = 1 + choices.below(9);
        let dealt = count.dealt(&mut choices, axes);
        let mut given: Vec<Given> = dealt.into_iter().map(Given::Powers).collect();
        if is_empty && choices.below(4) > 0 {
            given[choices.below(axes)] = Given::Zero;
        }
        for _ in 0..choices.below(4) {
            let other = Powers {
                twos: choices.pick(&[0, 1, 2, 24, 47, 61]),
                threes: choices.below(2) as u32,
            };
            let others = [
                Given::Unknown,
                Given::Unknown,
                Given::Zero,
                Given::Negative,
                Given::Powers(other),
            ];
            given[choices.below(axes)] = choices.pick(&others);
        }
        if choices.chance(8) {
            let axis = choices.below(axes);
            given[axis] = Given::Huge;
            given[(axis + 1) % axes] = Given::Huge;
        }

        let known = Powers::product(given.iter().filter_map(|size| match size {
            Given::Powers(powers) => Some(*powers),
            _ => None,
        }));
        let has = |wanted: Given| given.iter().filter(|&&size| size == wanted).count();
        let fits = match (has(Given::Unknown), has(Given::Zero), is_empty) {
            _ if axes > 8 || has(Given::Negative) + has(Given::Huge) > 0 => None,
            // The others have to be few enough to be counted beside a zero, too.
            (0, 1.., true) | (1, 0, true) => known.is_countable().then_some(0),
            (0, 0, false) => (known == count).then_some(0),
            (1, 0, false) => count.quotient(known).map(Powers::number),
            _ => None,
        };
        let wanted = fits.map(|rest| {
            let size = |size: &Given| match size {
                Given::Powers(powers) => powers.number(),
                Given::Unknown => rest,
                _ => 0,
            };
            given.iter().map(size).collect::<Vec<usize>>()
        });
        let written: Vec<i64> = given
            .iter()
            .map(|size| match size {
                Given::Powers(powers) => powers.number() as i64,
                Given::Zero => 0,
                Given::Unknown => -1,
                Given::Negative => -2,
                Given::Huge => i64::MAX,
            })
            .collect();
        let got = infer("t", &from, &written).map(|sizes| sizes.to_vec());
        met[2 * usize::from(is_empty) + usize::from(wanted.is_some())] += 1;
        assert_eq!(got.ok(), wanted, "{written:?} of {from:?}");
    }
    assert!(met.iter().all(|&times| times > 1000), "{met:?}");
}

/// Every index of a shape, row-major.
fn indices(shape: &[usize]) -> Vec<Vec<usize>> {
    shape.iter().fold(vec![vec![]], |indices, &size| {
        let longer = |index: Vec<usize>| (0..size).map(move |at| [&index[..], &[at]].concat());
        indices.into_iter().flat_map(longer).collect()
    })
}

/// The element that an index names.
fn place(strides: &[isize], index: &[usize]) -> isize {
    let steps = index.iter().zip(strides);
    steps.map(|(&at, &stride)| at as isize * stride).sum()
}

#[test]
fn a_layout_is_reshaped_where_its_elements_are_evenly_apart() {
    let mut choices = Rng::new(2);
    let mut met = [0; 2];
    for _ in 0..20_000 {
        let mut shape: Vec<usize> = Vec::new();
        let mut strides = Vec::new();
        let mut next = choices.pick(&[1, 1, 2, -1, 0]);
        for _ in 0..choices.below(5) {
            let size = choices.pick(&[0, 1, 1, 2, 2, 3, 3, 4, 4, 4, 6]);
            if choices.chance(4) {
                next = choices.between(-3, 9) as isize;
            }
            shape.insert(0, size);
            strides.insert(0, next);
            next *= size as isize;
        }
        let layout = Layout::strided(&shape, &strides, 9000).unwrap();
        let all = indices(&shape);
        let mut wanted = Vec::new();
        let mut left = all.len();
        while left > 1 {
            let size = 2 + choices.below(left - 1);
            if left.is_multiple_of(size) {
                wanted.push(size);
                left /= size;
            }
        }
        for size in [1, 1, left] {
            if size == 0 || wanted.len() < 8 && choices.chance(3) {
                wanted.insert(choices.below(wanted.len() + 1), size);
            }
        }
        let new = indices(&wanted);
        let old = |index: &Vec<usize>| place(&strides, index);
        // Along an axis, the step from the first index to the next is the step to all others.
        let step = |axis: usize| {
            let is_next = |index: &Vec<usize>| {
                let on = |other| index[other] == usize::from(other == axis);
                (0..wanted.len()).all(on)
            };
            let next = new.iter().position(is_next);
            next.map_or(0, |next| old(&all[next]))
        };
        let steps: Vec<isize> = (0..wanted.len()).map(step).collect();
        let even = all.iter().zip(&new);
        let even = even
            .clone()
            .all(|(before, after)| old(before) == place(&steps, after));
        met[usize::from(even)] += 1;
        let got = reshaped(&layout, &wanted);
        assert_eq!(got.is_some(), even, "{layout} to {wanted:?}");
        if let Some(got) = got.filter(|_| !all.is_empty()) {
            assert_eq!((got.shape(), got.offset()), (&wanted[..], 9000));
            let agree = |(before, after): (&Vec<usize>, &Vec<usize>)| {
                old(before) == place(got.strides(), after)
            };
            assert!(all.iter().zip(&new).all(agree), "{layout} to {got}");
        }
    }
    assert!(met.iter().all(|&times| times > 1000), "{met:?}");
}

/// Sizes that are powers of two are bits of the place in a row: within an axis, each steps twice as far as the
/// one before.
#[test]
fn huge_layouts_are_reshaped_bit_by_bit() {
    let mut choices = Rng::new(3);
    let mut met = [0; 2];
    // Bits dealt to axes, from the last, some of them without any.
    let axes = |choices: &mut Rng, mut left: u32| {
        let mut bits = Vec::new();
        while left > 0 && bits.len() < 7 || choices.chance(4) && bits.len() < 7 {
            bits.push(choices.below(left.min(24) as usize + 1) as u32);
            left -= bits[bits.len() - 1];
        }
        bits.push(left);
        bits
    };
    let sizes = |bits: &[u32]| -> Vec<usize> { bits.iter().rev().map(|&bits| 1 << bits).collect() };
    for _ in 0..20_000 {
        let count = choices.pick(&[3, 20, 40, 45]);
        let old = axes(&mut choices, count);
        let mut strides = Vec::new();
        let mut next = choices.pick(&[1isize, 1, 2, 0, -1]);
        for &bits in &old {
            if choices.chance(5) {
                next = choices.pick(&[0, 0, 1, 2, 3, -1]);
            }
            strides.insert(0, next);
            next <<= bits;
        }
        let layout = Layout::strided(&sizes(&old), &strides, 1 << 46).unwrap();
        let joined = axes(&mut choices, count);
        let weights: Vec<isize> = (old.iter().zip(strides.iter().rev()))
            .flat_map(|(&bits, &stride)| (0..bits).map(move |bit| stride << bit))
            .collect();
        let mut rest = &weights[..];
        let mut even = true;
        let mut steps = Vec::new();
        for &bits in &joined {
            let (own, others) = rest.split_at(bits as usize);
            even &= own.windows(2).all(|pair| pair[1] == 2 * pair[0]);
            steps.insert(0, own.first().copied());
            rest = others;
        }
        met[usize::from(even)] += 1;
        let got = reshaped(&layout, &sizes(&joined));
        let case = format!("{layout} to {:?}", sizes(&joined));
        assert_eq!(got.is_some(), even, "{case}");
        if let Some(got) = got {
            let own =
                |(step, stride): (&Option<isize>, &isize)| step.is_none_or(|step| step == *stride);
            assert!(steps.iter().zip(got.strides()).all(own), "{case}: {got}");
        }
    }
    assert!(met.iter().all(|&times| times > 1000), "{met:?}");
}

#[test]
fn two_shapes_broadcast_as_their_places_pair() {
    // Only one and whether they are equal matter of sizes: few stand for many.
    const SIZES: [usize; 6] = [0, 1, 2, 3, MAX_ELEMENTS, usize::MAX];
    let joined = |a: usize, b: usize| {
        let places = |a, b| (0..a).flat_map(move |x| (0..b).map(move |y| (x, y)));
        let pairs: Vec<(usize, usize)> = places(a, b)
            .filter(|&(x, y)| x == y || a == 1 || b == 1)
            .collect();
        let met = (0..a).all(|x| a == 1 || pairs.iter().any(|pair| pair.0 == x))
            && (0..b).all(|y| b == 1 || pairs.iter().any(|pair| pair.1 == y));
        met.then_some(pairs.len())
    };
    let mut choices = Rng::new(4);
    let mut met = [0; 2];
    for _ in 0..20_000 {
        let mut a: Vec<usize> = (0..choices.below(9)).map(|_| choices.below(6)).collect();
        let mut b = a.clone();
        for size in a.iter_mut().chain(&mut b) {
            if choices.chance(3) {
                *size = 1;
            } else if choices.chance(16) {
                *size = choices.below(6);
            }
        }
        let gone = choices.below(b.len() + 1);
        b.drain(..gone);
        if choices.chance(2) {
            std::mem::swap(&mut a, &mut b);
        }
        let rank = a.len().max(b.len());
        let from_right = |shape: &[usize], place: usize| shape.iter().rev().nth(place).copied();
        let wanted: Option<Vec<usize>> = (0..rank)
            .rev()
            .map(|place| {
                joined(
                    from_right(&a, place).unwrap_or(1),
                    from_right(&b, place).unwrap_or(1),
                )
            })
            .collect();
        let named =
            |shape: &[usize]| -> Vec<usize> { shape.iter().map(|&size| SIZES[size]).collect() };
        let got = broadcast("t", "b", &named(&a), &named(&b)).map(|sizes| sizes.to_vec());
        met[usize::from(wanted.is_some())] += 1;
        assert_eq!(got.ok(), wanted.map(|wanted| named(&wanted)), "{a:?} {b:?}");
    }
    assert!(met.iter().all(|&times| times > 1000), "{met:?}");
}
