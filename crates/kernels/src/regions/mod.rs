//! Regions of pictures at one size: a thread for each cell of each channel.

use smallvec::smallvec;
use streampool_device::{DType, Regions};

use crate::dispatch::{Dispatch, Operand, Params, Plan, grid};
use crate::text::{Buffer, Dialect, Field, KernelText, compute_type, load, storage_type, store};

/// Threads in each group.
const THREADS: u32 = 256;

/// A kernel that looks at regions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Looking {
    dtype: DType,
    /// Whether there are as many samples as elements.
    adaptive: bool,
    aligned: bool,
    largest: bool,
}

/// The launch that looks at regions.
pub(crate) fn regions<K: From<Looking>>(op: &Regions) -> Plan<K> {
    let elements = op.dst.layout().elements();
    if elements == 0 {
        return Plan::default();
    }
    let kernel = Looking {
        dtype: op.src.dtype(),
        adaptive: op.samples == 0,
        aligned: op.aligned,
        largest: op.largest,
    };
    let views = [&op.src, &op.corners, &op.batches, &op.dst];
    let mut params = Params::new().i64(elements as i64);
    for view in views {
        params = params.i64(view.layout().offset() as i64);
        for &stride in view.layout().strides() {
            params = params.i64(stride as i64);
        }
    }
    params = params.i64(op.src.shape()[0] as i64);
    for &size in &op.dst.shape()[1..] {
        params = params.i64(size as i64);
    }
    params = params.size(op.src.shape()[2]).size(op.src.shape()[3]);
    params = params.size(op.samples).u32(0);
    params = match kernel.dtype {
        DType::F64 => params.f64(op.scale),
        _ => params.f32(op.scale as f32),
    };
    Plan::of(Dispatch {
        kernel: kernel.into(),
        groups: grid([elements.div_ceil(THREADS as usize), 1, 1]),
        threads: THREADS,
        operands: smallvec![
            Operand::Memory(op.src.span()),
            Operand::Memory(op.corners.span()),
            Operand::Memory(op.batches.span()),
            Operand::Memory(op.dst.span()),
        ],
        params,
    })
}

impl Looking {
    fn fields(&self) -> Vec<Field> {
        let mut fields = vec![Field::new("i64", "count")];
        for (operand, rank) in [("src", 4), ("corners", 2), ("batches", 1), ("dst", 4)] {
            fields.push(Field::new("i64", format!("{operand}_at")));
            fields.extend((0..rank).map(|axis| Field::new("i64", format!("{operand}_{axis}"))));
        }
        let sizes = ["pictures", "channels", "rows", "columns"];
        fields.extend(sizes.map(|size| Field::new("i64", size)));
        fields.extend(["height", "width", "samples", "unused"].map(|size| Field::new("i32", size)));
        fields.push(Field::new(compute_type(self.dtype), "scale"));
        fields
    }

    pub(crate) fn text(&self, dialect: Dialect) -> Option<KernelText> {
        if dialect == Dialect::Metal && self.dtype == DType::F64 {
            return None;
        }
        let stored = storage_type(self.dtype);
        let number = compute_type(self.dtype);
        let functions = format!(
            "typedef {number} Number;\ntypedef {stored} Stored;\n#define ADAPTIVE {}\n#define ALIGNED {}\n#define LARGEST {}\n\
             #define LOADED(at) Number({})\n#define STORED(value) {}\n{}",
            u32::from(self.adaptive),
            u32::from(self.aligned),
            u32::from(self.largest),
            load(self.dtype, "picture[at]"),
            store(self.dtype, "(value)"),
            include_str!("functions.h"),
        );
        Some(KernelText {
            entry: "regions",
            buffers: vec![
                Buffer::read("src", stored),
                Buffer::read("corners", number),
                Buffer::read("batches", "i64"),
                Buffer::write("dst", stored),
            ],
            params: self.fields(),
            threads: Some(THREADS),
            functions,
            body: include_str!("body.h").to_owned(),
            ..KernelText::default()
        })
    }
}
