//! The kernels of linear algebra, and their text.

use std::fmt::Write;

use streampool_device::DType;

use crate::numbered;
use crate::text::{Buffer, Dialect, Field, KernelText, SharedArray, storage_type};

/// A step of a factorisation or a solve, on one matrix for each group or on a tile of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Linalg {
    pub(super) step: Step,
    pub(super) dtype: DType,
    /// Dimensions of matrices.
    pub(super) batch_rank: u8,
}

/// What is done to the matrix X, and with which others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Step {
    /// X is filled.
    Prepare(Content),
    /// Columns of X are factorised, with pivots Z.
    Panel,
    /// X becomes the factors of Y, with pivots Z, in shared memory for so many elements.
    WholeLu { capacity: u32 },
    /// X becomes the lower factor of Y, in shared memory for so many elements.
    Cholesky { capacity: u32 },
    /// Rows of X are solved for, by the triangle Y.
    Solve {
        upper: bool,
        unit: bool,
        /// Rows of X are exchanged by the pivots Z before.
        exchange: bool,
    },
    /// The product of Y and Z is subtracted from X.
    Update {
        /// From its lower triangle only.
        lower: bool,
    },
}

/// What a matrix is filled with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Content {
    /// Y.
    Whole,
    /// The lower triangle of Y, and zeros.
    Lower,
    /// The rows of Y in the order of the pivots Z.
    Permuted,
    /// The rows of the unit matrix in the order of the pivots Z.
    PermutedUnit,
}

/// The side of the blocks on the diagonal of a large matrix.
pub(super) const SIDE: usize = 32;
/// The side of the tiles in which products are subtracted.
pub(super) const TILE: usize = 64;
/// Rows that a group fills.
pub(super) const ROWS: usize = 32;
/// Matrices along the second axis of the grid; those beyond go to the third.
pub(super) const MATRICES_Y: usize = 65535;

/// The matrices of a kernel.
pub(super) const NAMES: [&str; 3] = ["x", "y", "z"];
/// The sizes that kernels are given, as far as they need them.
pub(super) const SIZES: [&str; 7] = [
    "rows", "columns", "inner", "first", "left", "skipped", "tiles",
];

impl Step {
    /// Threads of a group.
    pub fn threads(self) -> u32 {
        match self {
            Step::Panel => 512,
            Step::Solve { .. } => 64,
            _ => 256,
        }
    }

    fn entry(self) -> &'static str {
        match self {
            Step::Prepare(_) => "linalg_prepare",
            Step::Panel => "linalg_panel",
            Step::WholeLu { .. } => "linalg_lu",
            Step::Cholesky { .. } => "linalg_cholesky",
            Step::Solve { .. } => "linalg_solve",
            Step::Update { .. } => "linalg_update",
        }
    }

    /// Whether it has the matrices Y and Z.
    pub fn has(self) -> [bool; 2] {
        match self {
            Step::Prepare(Content::Whole | Content::Lower) => [true, false],
            Step::Prepare(Content::PermutedUnit) | Step::Panel => [false, true],
            Step::Prepare(Content::Permuted) | Step::WholeLu { .. } | Step::Update { .. } => {
                [true; 2]
            }
            Step::Cholesky { .. } => [true, false],
            Step::Solve { exchange, .. } => [true, exchange],
        }
    }

    fn shared(self, number: &'static str) -> Vec<SharedArray> {
        let array = SharedArray::new;
        let search = || vec![array(number, "sizes", 32), array("u32", "places", 32)];
        match self {
            Step::Prepare(Content::Permuted | Content::PermutedUnit) => {
                vec![array("i64", "sources", ROWS)]
            }
            Step::Prepare(_) => Vec::new(),
            Step::Panel => search(),
            Step::WholeLu { capacity } => {
                let mut arrays = search();
                arrays.push(array(number, "block", capacity as usize));
                arrays
            }
            Step::Cholesky { capacity } => vec![array(number, "block", capacity as usize)],
            Step::Solve { .. } => vec![array(number, "triangle", SIDE * SIDE)],
            Step::Update { .. } => vec![
                array(number, "left", TILE * SIDE),
                array(number, "right", TILE * SIDE),
            ],
        }
    }

    fn constants(self) -> Vec<(&'static str, String)> {
        let flag = |value: bool| u32::from(value).to_string();
        match self {
            Step::Prepare(content) => vec![
                ("ROWS", ROWS.to_string()),
                (
                    "PERMUTED",
                    flag(matches!(content, Content::Permuted | Content::PermutedUnit)),
                ),
                (
                    "CONTENT",
                    match content {
                        Content::Whole | Content::Permuted => "Y(from, column)",
                        Content::Lower => "(column <= row ? Y(row, column) : Number(0))",
                        Content::PermutedUnit => "Number(from == column ? 1 : 0)",
                    }
                    .to_owned(),
                ),
            ],
            Step::Solve {
                upper,
                unit,
                exchange,
            } => vec![
                ("SIDE", format!("{SIDE}u")),
                ("UPPER", flag(upper)),
                ("UNIT", flag(unit)),
                ("EXCHANGE", flag(exchange)),
            ],
            Step::Update { lower } => vec![
                ("SIDE", format!("{SIDE}u")),
                ("TILE", format!("{TILE}u")),
                ("LOWER", flag(lower)),
            ],
            _ => Vec::new(),
        }
    }

    fn body(self) -> &'static str {
        match self {
            Step::Prepare(_) => include_str!("prepare.h"),
            Step::Panel => include_str!("panel.h"),
            Step::WholeLu { .. } => include_str!("whole_lu.h"),
            Step::Cholesky { .. } => include_str!("cholesky.h"),
            Step::Solve { .. } => include_str!("solve.h"),
            Step::Update { .. } => include_str!("update.h"),
        }
    }
}

impl Linalg {
    fn fields(&self) -> Vec<Field> {
        let mut fields = Vec::new();
        for name in NAMES {
            fields.extend(
                ["at", "row", "column"].map(|part| Field::new("i64", format!("{name}_{part}"))),
            );
        }
        fields.extend(numbered::fields(self.batch_rank, &NAMES));
        fields.extend(SIZES.map(|name| Field::new("i64", name)));
        fields.push(Field::new("i64", "matrices"));
        fields
    }

    fn buffers(&self) -> Vec<Buffer> {
        let number = storage_type(self.dtype);
        let [has_y, has_z] = self.step.has();
        let mut buffers = vec![Buffer::write("x", number)];
        if has_y {
            buffers.push(Buffer::read("y", number));
        }
        if has_z {
            buffers.push(match self.step {
                Step::Update { .. } => Buffer::read("z", number),
                Step::Panel | Step::WholeLu { .. } => Buffer::write("z", "i32"),
                _ => Buffer::read("z", "i32"),
            });
        }
        buffers
    }

    pub(crate) fn text(&self, dialect: Dialect) -> Option<KernelText> {
        if dialect == Dialect::Metal && self.dtype == DType::F64 {
            return None;
        }
        let number = storage_type(self.dtype);
        let mut functions = format!("{}typedef {number} Number;\n", numbered::FUNCTIONS);
        functions.push_str(match dialect {
            Dialect::Cuda => include_str!("barrier_cuda.h"),
            Dialect::Metal => include_str!("barrier_metal.h"),
        });
        functions.push_str(include_str!("common.h"));
        for (name, value) in self.step.constants() {
            let _ = writeln!(functions, "#define {name} {value}");
        }
        if matches!(self.step, Step::Panel | Step::WholeLu { .. }) {
            functions.push_str(include_str!("panel_functions.h"));
        }
        let mut body = format!(
            "    const u32 matrix = group_z * {MATRICES_Y}u + group_y;\n    \
             if (matrix >= p.matrices) {{ return; }}\n    \
             i64 x_at = p.x_at, y_at = p.y_at, z_at = p.z_at;\n"
        );
        body.push_str(&numbered::locate(self.batch_rank, "matrix", &NAMES));
        body.push_str(self.step.body());
        Some(KernelText {
            entry: self.step.entry(),
            buffers: self.buffers(),
            params: self.fields(),
            shared: self.step.shared(number),
            threads: Some(self.step.threads()),
            functions,
            body,
        })
    }
}
