//! Copies that turn rows into columns, by way of memory that a group shares.

use super::body::Body;
use super::form::{
    self, THREADS, distance, distance_type, number, number_field, number_type, positions,
    size_fields,
};
use super::space::Space;
use crate::dispatch::{Limits, Params};
use crate::text::{Buffer, Dialect, Field, KernelText, SharedArray};

/// Dimensions shorter than this are not worth a tile.
const SHORTEST: usize = 16;

/// Groups for each processor, at most.
const GROUPS_PER_UNIT: u32 = 32;

/// A copy by square tiles: read along one dimension, written along another.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Transpose {
    pub(super) body: Body,
    /// Dimensions, the two of the tile included.
    rank: usize,
    wide: bool,
    /// Elements along a side of a tile.
    tile: usize,
}

impl Transpose {
    /// The transposing copy over `space`, whose operands are the source and the destination, and its
    /// parameters and groups; `None` if tiles would not help.
    pub(super) fn new(
        body: &Body,
        space: &Space,
        limits: &Limits,
    ) -> Option<(Transpose, Params, u32)> {
        let (src, dst) = (&space.operands[0], &space.operands[1]);
        let columns = space.rank - 1;
        let is_turned = dst.strides[columns] == 1 && src.strides[columns].unsigned_abs() > 1;
        let rows = (0..columns).find(|&axis| src.strides[axis].unsigned_abs() == 1)?;
        if !is_turned || space.sizes[rows].min(space.sizes[columns]) < SHORTEST {
            return None;
        }
        // A side is at least as long as what memory moves at once.
        let tile = if src.size.max(dst.size) <= 2 { 64 } else { 32 };
        let wide = !space.is_small();
        // All others, then the rows, then the columns.
        let order = (0..columns)
            .filter(|&axis| axis != rows)
            .chain([rows, columns]);
        let tiled = |axis: usize| axis == rows || axis == columns;
        let parts = |axis: usize| match tiled(axis) {
            true => space.sizes[axis].div_ceil(tile),
            false => space.sizes[axis],
        };
        let tiles: usize = (0..space.rank).map(parts).product();
        let mut params = number(Params::new(), wide, tiles);
        params = number(params, wide, space.sizes[rows]);
        params = number(params, wide, space.sizes[columns]);
        for (position, axis) in order.clone().enumerate() {
            if position > 0 {
                params = form::size(params, wide, parts(axis));
            }
            params = distance(params, wide, src.strides[axis]);
            params = distance(params, wide, dst.strides[axis]);
        }
        let transpose = Transpose {
            body: body.clone(),
            rank: space.rank,
            wide,
            tile,
        };
        Some((
            transpose,
            params,
            form::groups(tiles, GROUPS_PER_UNIT, limits),
        ))
    }

    pub(super) fn text(&self, dialect: Dialect) -> KernelText {
        let (reads, writes) = self.body.operands();
        KernelText {
            entry: "transpose",
            buffers: vec![
                Buffer::read("src", reads[0]),
                Buffer::write("dst", writes[0]),
            ],
            params: self.fields(),
            shared: vec![SharedArray::new(
                reads[0],
                "tile",
                self.tile * (self.tile + 1),
            )],
            threads: Some(THREADS),
            functions: self.body.function(dialect),
            body: self.body_text(writes[0]),
        }
    }

    fn fields(&self) -> Vec<Field> {
        let names = ["count", "rows", "columns"];
        let mut fields: Vec<Field> = names
            .iter()
            .map(|&name| number_field(self.wide, name))
            .collect();
        for axis in 0..self.rank {
            if axis > 0 {
                fields.extend(size_fields(self.wide, axis));
            }
            let ty = distance_type(self.wide);
            fields.push(Field::new(ty, format!("src{axis}")));
            fields.push(Field::new(ty, format!("dst{axis}")));
        }
        fields
    }

    fn body_text(&self, written: &str) -> String {
        let (number, distance) = (number_type(self.wide), distance_type(self.wide));
        let (rows, columns, tile) = (self.rank - 2, self.rank - 1, self.tile);
        let pitch = tile + 1;
        let batch = |operand: &str| {
            let steps = (0..rows).map(|axis| format!(" + position{axis} * p.{operand}{axis}"));
            format!("0{}", steps.collect::<String>())
        };
        // Each thread's place in a strip of the tile, and how many rows a strip has.
        let (strip, strips) = (THREADS as usize / tile, tile * tile / THREADS as usize);
        format!(
            "const u32 across = lane % {tile}, down = lane / {tile};\n\
             for ({number} index = group_x; index < p.count; index += groups_x) {{\n\
             {positions}\
             const {distance} row = position{rows} * {tile}, column = position{columns} * {tile};\n\
             const {distance} from = {from}, to = {to};\n\
             UNROLL for (u32 k = 0; k < {strips}; k++) {{\n\
             const u32 c = down + k * {strip};\n\
             if ({number}(row) + across < p.rows && {number}(column) + c < p.columns)\n\
             tile[c * {pitch} + across] = src[from + (row + {distance}(across)) * p.src{rows} + \
             (column + {distance}(c)) * p.src{columns}];\n}}\n\
             BARRIER();\n\
             UNROLL for (u32 k = 0; k < {strips}; k++) {{\n\
             const u32 r = down + k * {strip};\n\
             if ({number}(row) + r < p.rows && {number}(column) + across < p.columns) {{\n\
             {written} y0;\n\
             evaluate(tile[across * {pitch} + r], y0);\n\
             dst[to + (row + {distance}(r)) * p.dst{rows} + \
             (column + {distance}(across)) * p.dst{columns}] = y0;\n}}\n}}\n\
             BARRIER();\n}}\n",
            positions = positions(self.wide, self.rank, "index"),
            from = batch("src"),
            to = batch("dst"),
        )
    }
}
