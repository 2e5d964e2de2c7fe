//! What the tiles of Winograd's method see and make, and their weights.

#![allow(
    clippy::needless_range_loop,
    reason = "a zip is called, not inlined, in builds of many units"
)]

use std::ops::Range;

use streampool_device::Conv;

use crate::given_up::Steps;
use crate::kernels::matmul;
use crate::kernels::matmul::lanes::{Bounded, Bounds, PlainF32, between};
use crate::kernels::scratch::Count;
use crate::kernels::simd::{level, vectorised};
use crate::kernels::split::Shared;
use crate::kernels::strided::address;
#[cfg(target_arch = "x86_64")]
use crate::kernels::{
    matmul::lanes::{Avx2F32, Avx512F32},
    simd::Level,
};

/// Taps along a dimension.
pub(super) const TAPS: usize = 3;
/// The most places and results of a tile along a dimension.
pub(super) const MOST_SEEN: usize = 6;
const MOST_MADE: usize = MOST_SEEN + 1 - TAPS;
/// Columns of the products that are made at a time.
pub(super) const COLUMNS: usize = 64;
/// Floats of a cache line, and the most lanes of a vector.
pub(super) const LINE: usize = 16;

/// The points of larger tiles, beside 0 and infinity: both signs of these. Their product is 1.
const NEAR: f64 = 2.0 / 3.0;
const FAR: f64 = 3.0 / 2.0;

/// Columns whose weights are packed at a time; blocks have whole multiples.
const PACKED: usize = 8;

/// Bytes of the weights of all positions.
pub(super) fn packed_bytes(op: &Conv, seen: usize) -> Count {
    let shape = op.weight.shape();
    Count::of(seen * seen * size_of::<f32>())
        * shape[0].next_multiple_of(matmul::columns_of_a_block())
        * shape[1]
}

/// What three taps become along a dimension, for some columns at a time.
#[inline(always)]
fn turned(taps: &[[f64; PACKED]; TAPS], seen: usize) -> [[f64; PACKED]; MOST_SEEN] {
    const BY_NEAR: f64 = 0.5 / (NEAR * NEAR * (NEAR * NEAR - FAR * FAR));
    const BY_FAR: f64 = 0.5 / (FAR * FAR * (FAR * FAR - NEAR * NEAR));
    let points = match seen < MOST_SEEN {
        true => [(1.0, 0.5), (-1.0, 0.5), (0.0, 0.0), (0.0, 0.0)],
        false => [
            (NEAR, BY_NEAR),
            (-NEAR, BY_NEAR),
            (FAR, BY_FAR),
            (-FAR, BY_FAR),
        ],
    };
    let mut turned = [[0.0; PACKED]; MOST_SEEN];
    for column in 0..PACKED {
        let [first, second, third] = [taps[0][column], taps[1][column], taps[2][column]];
        turned[0][column] = first;
        for (place, (point, times)) in points.iter().enumerate() {
            turned[place + 1][column] = (first + (second + third * point) * point) * times;
        }
        turned[seen - 1][column] = third;
    }
    turned
}

vectorised! {
    /// Writes the weights of each position as they are multiplied.
    ///
    /// # Safety
    /// They can be read, and [`packed_bytes`] be written.
    pub(super) unsafe fn pack[](op: &Conv, seen: usize, to: *mut f32) {
        let (shape, strides) = (op.weight.shape(), op.weight.layout().strides());
        let (made, read) = (shape[0], shape[1]);
        let from = address::<f32>(&op.weight).cast_const();
        let width = matmul::columns_of_a_block();
        let position = made.next_multiple_of(width) * read;
        let mut steps = Steps::default();
        for first in (0..made.next_multiple_of(width)).step_by(PACKED) {
            steps.take((read * seen * seen).saturating_mul(PACKED));
            let columns = first.min(made)..made.min(first + PACKED);
            for channel in 0..read {
                // For each tap along a line, what those of the lines become.
                let mut lines = [[[0.0; PACKED]; MOST_SEEN]; TAPS];
                for along in 0..TAPS {
                    let mut taps = [[0.0; PACKED]; TAPS];
                    for down in 0..TAPS {
                        for column in columns.clone() {
                            let at = column as isize * strides[0]
                                + channel as isize * strides[1]
                                + down as isize * strides[2]
                                + along as isize * strides[3];
                            // SAFETY: the weight exists.
                            taps[down][column - first] = f64::from(unsafe { *from.wrapping_offset(at) });
                        }
                    }
                    lines[along] = turned(&taps, seen);
                }
                let block = (first / width * read + channel) * width + first % width;
                for down in 0..seen {
                    let places = turned(&[lines[0][down], lines[1][down], lines[2][down]], seen);
                    for along in 0..seen {
                        let to = to.wrapping_add((down * seen + along) * position + block);
                        for column in 0..PACKED {
                            // SAFETY: there is room for all positions.
                            unsafe { *to.add(column) = places[along][column] as f32 };
                        }
                    }
                }
            }
        }
    }
}

/// The tiles of a convolution, and where what they see and make lies.
pub(super) struct Tiles {
    pub(super) from: Shared<f32>,
    pub(super) to: Shared<f32>,
    /// From image to image, from line to line, from place to place.
    pub(super) read: [isize; 3],
    pub(super) written: [isize; 3],
    /// The first bias, and from one to the next.
    pub(super) bias: Option<(Shared<f32>, isize)>,
    /// Channels that are read and made.
    pub(super) channels: [usize; 2],
    /// Lines and places of a line, of the source and of the result.
    pub(super) sizes: [usize; 2],
    pub(super) results: [usize; 2],
    /// Lines and places before the picture.
    pub(super) before: [usize; 2],
    /// Places along a dimension that a tile sees, and results that it makes.
    pub(super) seen: usize,
    pub(super) made: usize,
    /// Tiles of a line.
    pub(super) along: usize,
    /// Between which numbers results are kept, if the activation does no more.
    pub(super) bounds: Option<Bounds>,
}

/// Where what some tiles see is kept, and their products.
pub(super) struct Room {
    /// Nothing, for places beside the picture.
    pub(super) zeros: *mut f32,
    pub(super) seen: *mut f32,
    pub(super) products: *mut f32,
    /// From position to position.
    pub(super) steps: [usize; 2],
    /// From tile to tile.
    pub(super) rows: [usize; 2],
}

impl Tiles {
    /// Writes for each channel of what each tile sees the numbers of all positions.
    ///
    /// # Safety
    /// What tiles see can be read, and there is room for it. They see `S` places, and the machine has the instructions of `L`.
    #[inline(always)]
    unsafe fn see<L: Bounded, const S: usize>(
        &self,
        image: usize,
        tiles: Range<usize>,
        room: &Room,
    ) {
        let image = image as isize * self.read[0];
        // SAFETY: what is seen lies in the picture, or is nothing; there is room for all positions.
        unsafe {
            for tile in tiles.clone() {
                let tops = [tile / self.along * self.made, tile % self.along * self.made];
                let mut from = [[room.zeros.cast_const(); S]; S];
                for down in 0..S {
                    for along in 0..S {
                        // Before the picture they wrap around.
                        let line = (tops[0] + down).wrapping_sub(self.before[0]);
                        let place = (tops[1] + along).wrapping_sub(self.before[1]);
                        if line < self.sizes[0] && place < self.sizes[1] {
                            let at = line as isize * self.read[1] + place as isize * self.read[2];
                            from[down][along] = self.from.at(image + at);
                        }
                    }
                }
                let to = room.seen.add((tile - tiles.start) * room.rows[0]);
                let mut channel = 0;
                while channel < self.channels[0] {
                    let count = self.channels[0] - channel;
                    let mut lines = [[L::zero(); S]; S];
                    for along in 0..S {
                        let mut places = [L::zero(); S];
                        for down in 0..S {
                            let from = from[down][along].add(channel);
                            places[down] = match count < L::WIDTH {
                                true => L::some_units(from, count),
                                false => L::units(from),
                            };
                        }
                        let places = changed::<L, S>(places);
                        for down in 0..S {
                            lines[down][along] = places[down];
                        }
                    }
                    for down in 0..S {
                        let places = changed::<L, S>(lines[down]);
                        for along in 0..S {
                            let position = down * S + along;
                            places[along].store(to.add(position * room.steps[0] + channel));
                        }
                    }
                    channel += L::WIDTH;
                }
            }
        }
    }

    /// Makes the results of these channels of their products.
    ///
    /// # Safety
    /// The products of all positions are there, and the results can be written. The rest is as for [`see`](Self::see).
    #[inline(always)]
    unsafe fn make<L: Bounded, const S: usize>(
        &self,
        image: usize,
        tiles: Range<usize>,
        columns: Range<usize>,
        room: &Room,
    ) {
        let image = image as isize * self.written[0];
        // SAFETY: the products are there, and the results can be written.
        unsafe {
            let bounds = self.bounds.unwrap_or_default().lanes::<L>();
            let mut biases = [0.0; COLUMNS + LINE];
            if let Some((bias, step)) = &self.bias {
                for column in columns.clone() {
                    biases[column - columns.start] = *bias.at(column as isize * step);
                }
            }
            for tile in tiles.clone() {
                let from = room.products.add((tile - tiles.start) * room.rows[1]);
                let tops = [tile / self.along * self.made, tile % self.along * self.made];
                let mut column = 0;
                while column < columns.len() {
                    let count = columns.len() - column;
                    let mut lines = [[L::zero(); S]; MOST_MADE];
                    for along in 0..S {
                        let mut products = [L::zero(); S];
                        for down in 0..S {
                            let position = down * S + along;
                            products[down] = L::load(from.add(position * room.steps[1] + column));
                        }
                        let results = summed::<L, S>(products);
                        for down in 0..MOST_MADE {
                            lines[down][along] = results[down];
                        }
                    }
                    let bias = L::load(biases.as_ptr().add(column));
                    for down in 0..S + 1 - TAPS {
                        let results = summed::<L, S>(lines[down]);
                        for along in 0..S + 1 - TAPS {
                            let [line, place] = [tops[0] + down, tops[1] + along];
                            if line < self.results[0] && place < self.results[1] {
                                let at = image
                                    + line as isize * self.written[1]
                                    + place as isize * self.written[2];
                                let to = self.to.at(at + (columns.start + column) as isize);
                                store(between(results[along].plus(bias), bounds), to, count);
                            }
                        }
                    }
                    column += L::WIDTH;
                }
            }
        }
    }
}

/// These numbers plus so many times others.
///
/// # Safety
/// The machine has the instructions of `L`.
#[inline(always)]
unsafe fn plus<L: Bounded>(lanes: L, times: f64, others: L) -> L {
    // SAFETY: the caller's promise.
    unsafe { lanes.plus_product(L::splat(&(times as f32)), others) }
}

/// What the places that a tile sees become along a dimension.
///
/// # Safety
/// As for [`plus`].
#[inline(always)]
unsafe fn changed<L: Bounded, const S: usize>(seen: [L; S]) -> [L; S] {
    let mut changed = seen;
    // SAFETY: the caller's promise.
    unsafe {
        if S < MOST_SEEN {
            changed[0] = plus(seen[0], -1.0, seen[2]);
            changed[1] = seen[1].plus(seen[2]);
            changed[2] = plus(seen[2], -1.0, seen[1]);
            changed[3] = plus(seen[1], -1.0, seen[3]);
            return changed;
        }
        let (near, far) = (NEAR * NEAR, FAR * FAR);
        changed[0] = plus(seen[0].plus(seen[4]), -near - far, seen[2]);
        changed[5] = plus(seen[1].plus(seen[5]), -near - far, seen[3]);
        for (first, point, other) in [(1, NEAR, far), (3, FAR, near)] {
            let even = plus(seen[4], -other, seen[2]);
            let odd = plus(seen[3], -other, seen[1]);
            changed[first] = plus(even, point, odd);
            changed[first + 1] = plus(even, -point, odd);
        }
    }
    changed
}

/// The results of products along a dimension, of smaller tiles the first two.
///
/// # Safety
/// As for [`plus`].
#[inline(always)]
unsafe fn summed<L: Bounded, const S: usize>(products: [L; S]) -> [L; MOST_MADE] {
    let mut results = [L::zero(); MOST_MADE];
    // SAFETY: the caller's promise.
    unsafe {
        let [even, odd] = [
            products[1].plus(products[2]),
            plus(products[1], -1.0, products[2]),
        ];
        if S < MOST_SEEN {
            results[0] = products[0].plus(even);
            results[1] = plus(odd, -1.0, products[3]);
            return results;
        }
        let [evens, odds] = [
            products[3].plus(products[4]),
            plus(products[3], -1.0, products[4]),
        ];
        let times = |point: f64, lanes: L| plus(L::zero(), point, lanes);
        results[0] = products[0].plus(even).plus(evens);
        results[1] = plus(times(NEAR, odd), FAR, odds);
        results[2] = plus(times(NEAR * NEAR, even), FAR * FAR, evens);
        results[3] = plus(plus(products[5], NEAR.powi(3), odd), FAR.powi(3), odds);
    }
    results
}

/// Stores the first `count` of the lanes, at most all.
///
/// # Safety
/// So many can be written; the machine has the instructions of `L`.
#[inline(always)]
unsafe fn store<L: Bounded>(lanes: L, to: *mut f32, count: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        if count >= L::WIDTH {
            return lanes.store(to);
        }
        let mut some = [0.0; LINE];
        lanes.store(some.as_mut_ptr());
        for (index, value) in some.iter().enumerate().take(count) {
            *to.add(index) = *value;
        }
    }
}

macro_rules! compiled {
    ($name:ident: $method:ident($($arg:ident: $type:ty),*)) => {
        /// As the method, by the best instructions of the machine.
        ///
        /// # Safety
        /// As for the method.
        pub(super) unsafe fn $name(all: &Tiles, $($arg: $type),*) {
            #[inline(always)]
            unsafe fn sized<L: Bounded>(all: &Tiles, $($arg: $type),*) {
                // SAFETY: tiles are of one of the two sizes; the rest the caller promises.
                unsafe {
                    match all.seen {
                        MOST_SEEN => all.$method::<L, MOST_SEEN>($($arg),*),
                        _ => all.$method::<L, 4>($($arg),*),
                    }
                }
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
            unsafe fn avx512(all: &Tiles, $($arg: $type),*) {
                // SAFETY: the caller's promise; the function is only called where the features are.
                unsafe { sized::<Avx512F32>(all, $($arg),*) }
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c")]
            unsafe fn avx2(all: &Tiles, $($arg: $type),*) {
                // SAFETY: as above.
                unsafe { sized::<Avx2F32>(all, $($arg),*) }
            }
            // SAFETY: the level says that the machine has the instructions; the rest the caller promises.
            unsafe {
                match level() {
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx512 => avx512(all, $($arg),*),
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx2 => avx2(all, $($arg),*),
                    _ => sized::<PlainF32>(all, $($arg),*),
                }
            }
        }
    };
}

compiled!(see: see(image: usize, tiles: Range<usize>, room: &Room));
compiled!(make: make(image: usize, tiles: Range<usize>, columns: Range<usize>, room: &Room));
