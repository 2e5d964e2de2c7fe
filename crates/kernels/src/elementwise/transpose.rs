//! What is read along one dimension and written along another, by way of memory that a group shares.

use smallvec::SmallVec;

use super::body::Body;
use super::form::{
    self, MOST_ARGUMENT_BYTES, THREADS, distance, distance_type, number, number_field, number_type,
    positions, size_fields,
};
use super::space::{Space, Strided};
use crate::dispatch::{Limits, Params};
use crate::text::{Buffer, Dialect, Field, KernelText, SharedArray};

/// Dimensions shorter than this are not worth a tile.
const SHORTEST: usize = 16;

/// Groups for each processor, at most.
const GROUPS_PER_UNIT: u32 = 32;

/// The shared arrays of inputs that are turned.
const TILES: [&str; MOST_INPUTS] = [
    "tile0", "tile1", "tile2", "tile3", "tile4", "tile5", "tile6", "tile7",
];

/// The most inputs, and those among them that are turned. Each of these has a tile in shared memory.
const MOST_INPUTS: usize = 8;
const MOST_TURNED: usize = 2;

/// Elements by square tiles: inputs are read along one dimension, and the output is written along another.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Transpose {
    pub(super) body: Body,
    /// Dimensions, the two of the tile included.
    rank: usize,
    wide: bool,
    /// Elements along a side of a tile.
    tile: usize,
    /// Whether an input is read along the rows, for each; others are read as the output is written.
    turned: SmallVec<[bool; MOST_INPUTS]>,
}

impl Transpose {
    /// What computes `body` over `space`, whose operands are inputs and an output, its parameters, of which `own` are
    /// the body's, and its groups; `None` if tiles would not help.
    pub(super) fn new(
        body: &Body,
        space: &Space,
        own: &Params,
        limits: &Limits,
    ) -> Option<(Transpose, Params, u32)> {
        let (dst, inputs) = space.operands.split_last()?;
        let columns = space.rank - 1;
        let along = |operand: &Strided, axis: usize| operand.strides[axis].unsigned_abs();
        let is_turned =
            |input: &Strided, rows| along(input, rows) == 1 && along(input, columns) > 1;
        let rows = (0..columns).find(|&axis| inputs.iter().any(|input| is_turned(input, axis)))?;
        let is_short = space.sizes[rows].min(space.sizes[columns]) < SHORTEST;
        if dst.strides[columns] != 1 || is_short || inputs.len() > MOST_INPUTS {
            return None;
        }
        let turned: SmallVec<_> = inputs.iter().map(|input| is_turned(input, rows)).collect();
        let is_one = body.operands().1.len() == 1;
        if !is_one || turned.iter().filter(|turned| **turned).count() > MOST_TURNED {
            return None;
        }
        // A side is at least as long as what memory moves at once.
        let largest = space.operands.iter().map(|operand| operand.size).max()?;
        let tile = if largest <= 2 { 64 } else { 32 };
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
        let mut params = number(own.clone(), wide, tiles);
        params = number(params, wide, space.sizes[rows]);
        params = number(params, wide, space.sizes[columns]);
        for (position, axis) in order.clone().enumerate() {
            if position > 0 {
                params = form::size(params, wide, parts(axis));
            }
            for operand in &space.operands {
                params = distance(params, wide, operand.strides[axis]);
            }
        }
        let addresses = 8 * space.operands.len();
        let transpose = Transpose {
            body: body.clone(),
            rank: space.rank,
            wide,
            tile,
            turned,
        };
        (params.as_bytes().len() + addresses <= MOST_ARGUMENT_BYTES).then(|| {
            let groups = form::groups(tiles, GROUPS_PER_UNIT, limits);
            (transpose, params, groups)
        })
    }

    pub(super) fn text(&self, dialect: Dialect) -> KernelText {
        let (reads, writes) = self.body.operands();
        let inputs = reads.iter().enumerate();
        let buffers = inputs
            .clone()
            .map(|(input, ty)| Buffer::read(format!("in{input}"), ty));
        let tiles = inputs.zip(&self.turned).filter(|(_, turned)| **turned);
        let length = self.tile * (self.tile + 1);
        let mut params = self.body.fields();
        params.extend(self.fields());
        KernelText {
            entry: match self.body {
                Body::Map(_) => "elementwise_transposed",
                _ => "transpose",
            },
            buffers: buffers.chain([Buffer::write("out", writes[0])]).collect(),
            params,
            shared: tiles
                .map(|((input, ty), _)| SharedArray::new(ty, TILES[input], length))
                .collect(),
            threads: Some(THREADS),
            functions: self.body.function(dialect),
            body: self.body_text(dialect, writes[0]),
        }
    }

    /// The names of the operands in parameters: inputs by their number, and the output.
    fn operands(&self) -> impl Iterator<Item = String> {
        let inputs = (0..self.turned.len()).map(|input| format!("in{input}"));
        inputs.chain(["out".to_owned()])
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
            fields.extend(
                self.operands()
                    .map(|operand| Field::new(ty, format!("{operand}_{axis}"))),
            );
        }
        fields
    }

    fn body_text(&self, dialect: Dialect, written: &str) -> String {
        let (number, distance) = (number_type(self.wide), distance_type(self.wide));
        let (rows, columns, tile) = (self.rank - 2, self.rank - 1, self.tile);
        let pitch = tile + 1;
        let begins: String = self
            .operands()
            .map(|operand| {
                let steps = (0..rows).map(|axis| format!(" + position{axis} * p.{operand}_{axis}"));
                let steps: String = steps.collect();
                format!("const {distance} {operand}_at = 0{steps};\n")
            })
            .collect();
        let place = |operand: &str, row: &str, column: &str| {
            format!(
                "{operand}[{operand}_at + (row + {distance}({row})) * p.{operand}_{rows} + \
                 (column + {distance}({column})) * p.{operand}_{columns}]"
            )
        };
        let inputs = || self.turned.iter().enumerate();
        let reads: String = inputs()
            .filter(|(_, turned)| **turned)
            .map(|(input, _)| {
                let from = place(&format!("in{input}"), "across", "c");
                format!("{}[c * {pitch} + across] = {from};\n", TILES[input])
            })
            .collect();
        let values = inputs().map(|(input, &turned)| match turned {
            true => format!("{}[across * {pitch} + r]", TILES[input]),
            false => place(&format!("in{input}"), "r", "across"),
        });
        let own = self.body.arguments(dialect, "0").into_iter();
        let arguments: Vec<String> = own.chain(values).chain(["y".to_owned()]).collect();
        // Each thread's place in a strip of the tile, and how many rows a strip has.
        let (strip, strips) = (THREADS as usize / tile, tile * tile / THREADS as usize);
        format!(
            "const u32 across = lane % {tile}, down = lane / {tile};\n\
             for ({number} index = group_x; index < p.count; index += groups_x) {{\n\
             {positions}{begins}\
             const {distance} row = position{rows} * {tile}, column = position{columns} * {tile};\n\
             UNROLL for (u32 k = 0; k < {strips}; k++) {{\n\
             const u32 c = down + k * {strip};\n\
             if ({number}(row) + across < p.rows && {number}(column) + c < p.columns) {{\n\
             {reads}}}\n}}\n\
             BARRIER();\n\
             UNROLL for (u32 k = 0; k < {strips}; k++) {{\n\
             const u32 r = down + k * {strip};\n\
             if ({number}(row) + r < p.rows && {number}(column) + across < p.columns) {{\n\
             {written} y;\n\
             evaluate({arguments});\n\
             {to} = y;\n}}\n}}\n\
             BARRIER();\n}}\n",
            positions = positions(self.wide, self.rank, "index"),
            arguments = arguments.join(", "),
            to = place("out", "r", "across"),
        )
    }
}
