//! Sparse tensors, which are dense from the time on when they are read.

use streampool_tensor::room::filled;
use streampool_tensor::{DType, Tensor};

use super::proto::SparseProto;
use super::tensors::Importer;
use crate::error::NodeError;

/// The most bytes that one becomes: its file need not be as large.
const MOST: usize = 256 << 20;

/// The tensor with zeros where nothing is said.
pub fn dense(importer: &mut Importer<'_>, proto: &SparseProto) -> Result<Tensor, NodeError> {
    let missing = |what: &str| {
        NodeError::malformed(
            format_args!("the {what} of a sparse tensor"),
            "left out",
            "a tensor",
        )
    };
    let values = proto.values.as_ref().ok_or_else(|| missing("values"))?;
    let indices = proto.indices.as_ref().ok_or_else(|| missing("indices"))?;
    let values = importer.tensor(values).map_err(Box::new)?;
    let indices = importer.tensor(indices).map_err(Box::new)?;
    let malformed = || {
        let got = format_args!("{:?}", proto.sizes);
        NodeError::malformed(
            "the shape of a sparse tensor",
            got,
            format!("at most {MOST} bytes"),
        )
    };
    let (dtype, rank) = (values.dtype(), proto.sizes.len());
    let mut shape = Vec::new();
    for &size in &proto.sizes {
        shape.push(usize::try_from(size).map_err(|_| malformed())?);
    }
    let bytes = shape
        .iter()
        .try_fold(dtype.size(), |all, &size| all.checked_mul(size));
    let bytes = bytes.filter(|&bytes| bytes <= MOST).ok_or_else(malformed)?;
    let count = values.elem_count();
    let each = match *indices.shape() {
        [listed] if listed == count => 1,
        [listed, axes] if listed == count && axes == rank => axes,
        _ => {
            let got = format_args!("of shape {:?}", indices.shape());
            let expected = format!("[{count}] or [{count}, {rank}]");
            return Err(NodeError::malformed(
                "the indices of a sparse tensor",
                got,
                expected,
            ));
        }
    };
    let single = indices.rank() == 1;
    let places = indices.to_dtype(DType::I64)?.to_vec::<i64>()?;
    let (size, given) = (dtype.size(), values.to_bytes()?);
    let mut all = filled(0u8, bytes)?;
    for (number, element) in given.chunks_exact(size).enumerate() {
        let row = &places[number * each..][..each];
        let outside = || {
            let got = format_args!("{row:?}");
            NodeError::malformed(
                "an index of a sparse tensor",
                got,
                format!("one within {shape:?}"),
            )
        };
        let place = match single {
            true => usize::try_from(row[0]).map_err(|_| outside())?,
            false => {
                let mut place = 0;
                for (&at, &size) in row.iter().zip(&shape) {
                    let at = usize::try_from(at).ok().filter(|&at| at < size);
                    place = place * size + at.ok_or_else(outside)?;
                }
                place
            }
        };
        let at = place
            .checked_mul(size)
            .filter(|&at| at < bytes)
            .ok_or_else(outside)?;
        all[at..at + size].copy_from_slice(element);
    }
    Ok(Tensor::from_bytes(importer.pool(), dtype, &all, &shape)?)
}
