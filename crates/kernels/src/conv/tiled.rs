//! Weights times what the windows see: tiles of both in shared memory, a block of sums in each thread.

use std::fmt::Write;

use streampool_device::Conv;

use super::ends::Ends;
use super::shared_text::{buffers, ends, operands, place_fields, places};
use crate::dispatch::{Dispatch, Limits, Params, Plan, grid};
use crate::elementwise::form::{size, size_fields};
use crate::register_blocks::{self, MULTIPLY, THREADS};
use crate::spatial::{self, slides};
use crate::text::{Field, KernelText, constants};

/// Tiles of weights and of the image in shared memory, a block of sums in each of 256 threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tiled {
    pub(super) ends: Ends,
    /// Channels and pixels of the result that a group computes: 32, 64 or 128.
    tile: [u8; 2],
}

/// Groups along the second axis of the grid; images and groups of channels beyond go to the third.
const IMAGES_Y: usize = 1 << 15;
/// Taps of all channels of a group, and tiles, are counted in 31 bits.
const LIMIT: usize = 1 << 31;

pub(super) fn plan<K>(
    op: &Conv,
    limits: &Limits,
    kind: impl FnOnce(Tiled) -> K,
) -> Option<Plan<K>> {
    let (read, made) = (op.src.shape()[1] / op.groups, op.dst.shape()[1] / op.groups);
    let images = op.src.shape()[0] * op.groups;
    let pixels: usize = op.dst.shape()[2..].iter().product();
    let kernels = slides(&op.window).map(|slide| slide.kernel as usize);
    let taps = kernels
        .iter()
        .try_fold(1usize, |taps, &kernel| taps.checked_mul(kernel))?;
    let depths = taps.checked_mul(read).filter(|&depths| depths < LIMIT)?;
    let kernel = Tiled {
        ends: Ends::of(op),
        tile: tile(made, pixels, images, limits),
    };
    let [rows, columns] = kernel.tile.map(usize::from);
    let (down, across) = (made.div_ceil(rows), pixels.div_ceil(columns));
    let tiles = down.checked_mul(across).filter(|&tiles| tiles < LIMIT)?;
    let mut params = places(Params::new(), true, op)
        .size(images)
        .size(op.groups)
        .size(read)
        .size(made)
        .size(pixels)
        .size(depths);
    let shape = spatial::shape(&op.dst);
    let line_taps = kernels[2];
    for divisor in [
        down,
        shape[3],
        shape[4],
        taps,
        kernels[1] * line_taps,
        line_taps,
    ] {
        params = size(params, false, divisor);
    }
    Some(Plan::of(Dispatch {
        kernel: kind(kernel),
        groups: grid([tiles, images.min(IMAGES_Y), images.div_ceil(IMAGES_Y)]),
        threads: THREADS,
        operands: operands(op),
        params,
    }))
}

/// What is divided by: tiles of rows, pixels of a line and lines, and taps of a channel, a plane and a line.
const DIVISORS: [&str; 6] = ["down", "lines", "line", "taps", "plane_taps", "line_taps"];

/// Large tiles read less, small ones occupy more of the device.
fn tile(made: usize, pixels: usize, images: usize, limits: &Limits) -> [u8; 2] {
    let side = |size: usize, most: usize| size.next_power_of_two().clamp(32, most) as u8;
    let groups =
        |rows: usize, columns: usize| made.div_ceil(rows) * pixels.div_ceil(columns) * images;
    let units = limits.compute_units as usize;
    match () {
        () if made > 64 && groups(128, 128) >= units => [side(made, 128), side(pixels, 128)],
        () if groups(64, 64) >= units => [side(made, 64), side(pixels, 64)],
        () => [32, 32],
    }
}

impl Tiled {
    pub(super) fn text(&self) -> KernelText {
        let tile = self.tile.map(u32::from);
        let mut params = place_fields(true, self.ends);
        let sizes = ["images", "groups", "read", "made", "pixels", "depths"];
        params.extend(sizes.map(|name| Field::new("u32", name)));
        params.extend((0..DIVISORS.len()).flat_map(|divisor| size_fields(false, divisor)));
        let mut functions = ends(self.ends);
        register_blocks::functions(&mut functions, tile);
        constants(&mut functions, &[("IMAGES_Y", IMAGES_Y as u32)]);
        functions.push_str(
            "#define ROW_FETCHES (ROWS * DEPTH / THREADS)\n\
             #define COLUMN_FETCHES (COLUMNS * DEPTH / THREADS)\n",
        );
        for (number, name) in DIVISORS.iter().enumerate() {
            let _ = writeln!(
                functions,
                "#define DIVIDED_BY_{}(n) quotient(n, p.factor{number}, p.shift{number})",
                name.to_uppercase()
            );
            let _ = writeln!(functions, "#define {} p.size{number}", name.to_uppercase());
        }
        KernelText {
            entry: "conv_tiled",
            buffers: buffers(self.ends),
            params,
            shared: register_blocks::shared(tile),
            threads: Some(THREADS),
            functions,
            body: [
                include_str!("tiled_body.h"),
                MULTIPLY,
                include_str!("tiled_end.h"),
            ]
            .concat(),
        }
    }
}
