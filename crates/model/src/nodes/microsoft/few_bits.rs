//! Products with weights of a few bits, which share a scale block by block.

use streampool_tensor::{Activation, DType, Tensor};

use super::super::call::{Call, Operator, Outputs};
use crate::error::NodeError;

pub fn operator(op: &str) -> Option<Operator> {
    Some(match op {
        "MatMulNBits" => matmul,
        _ => return None,
    })
}

/// How a matrix of few bits is packed.
#[derive(Debug, Clone, Copy)]
pub struct FewBits {
    /// Bits of a weight: 2, 4 or 8.
    pub bits: usize,
    /// How many weights of a row share a scale and a zero point.
    pub size: usize,
    /// Rows, one for each column of the product.
    pub rows: usize,
    /// Weights of a row.
    pub columns: usize,
}

impl FewBits {
    /// The matrix `[rows, columns]`, in the type of its scales. Without zero points these are in the middle.
    pub fn widened(
        &self,
        packed: &Tensor,
        scales: &Tensor,
        zeros: Option<&Tensor>,
    ) -> Result<Tensor, NodeError> {
        let FewBits {
            bits,
            size,
            rows,
            columns,
        } = *self;
        if !matches!(bits, 2 | 4 | 8) {
            return Err(NodeError::unsupported(format_args!(
                "weights of {bits} bits"
            )));
        }
        if size == 0 || packed.dtype() != DType::U8 {
            let got = format!("blocks of {size} in {}", packed.dtype());
            return Err(NodeError::malformed("the weights", got, "blocks of u8"));
        }
        let blocks = columns.div_ceil(size);
        let values = self.unpacked(packed)?;
        let wanted = rows
            .checked_mul(blocks)
            .and_then(|all| all.checked_mul(size));
        if Some(values.elem_count()) != wanted {
            let got = format!("{} in shape {:?}", values.elem_count(), packed.shape());
            let expected = format!("{rows} rows of {blocks} blocks of {size}");
            return Err(NodeError::malformed("the weights", got, expected));
        }
        let values = values.reshape(&[rows, blocks, size])?;
        let scales = scales.reshape(&[rows, blocks, 1])?;
        let values = values.to_dtype(scales.dtype())?;
        let zeroed = match zeros {
            None => values.sub((1i64 << (bits - 1)) as f64)?,
            Some(zeros) if zeros.dtype() == DType::U8 => {
                let zeros = self.unpacked(zeros)?.reshape(&[rows as i64, -1])?;
                let zeros = zeros.narrow(1, 0, blocks)?.reshape(&[rows, blocks, 1])?;
                values.sub(&zeros.to_dtype(scales.dtype())?)?
            }
            Some(zeros) => values.sub(&zeros.reshape(&[rows, blocks, 1])?)?,
        };
        let all = zeroed.mul(&scales)?.reshape(&[rows, blocks * size])?;
        Ok(all.narrow(1, 0, columns)?)
    }

    /// One after the other what lies packed in bytes, the lowest bits first.
    fn unpacked(&self, bytes: &Tensor) -> Result<Tensor, NodeError> {
        let flat = bytes.reshape(&[-1i64])?;
        if self.bits == 8 {
            return Ok(flat);
        }
        let part = |part: usize| -> Result<Tensor, NodeError> {
            let shifted = match part {
                0 => flat.clone(),
                _ => flat.bitwise_right_shift((part * self.bits) as i64)?,
            };
            Ok(shifted.bitwise_and((1i64 << self.bits) - 1)?)
        };
        let parts = (0..8 / self.bits)
            .map(part)
            .collect::<Result<Vec<_>, _>>()?;
        let parts: Vec<&Tensor> = parts.iter().collect();
        Ok(Tensor::stack(&parts, 1)?.reshape(&[-1i64])?)
    }
}

fn matmul(call: &Call<'_>) -> Outputs {
    if call.has_input(4) {
        return Err(NodeError::unsupported("an order of groups"));
    }
    let [packed, scales, zeros] = call.beside([1, 2, 3])?;
    let (Some(packed), Some(scales)) = (packed, scales) else {
        return Err(NodeError::malformed(
            "the weights",
            "left out",
            "weights and scales",
        ));
    };
    let blocks = FewBits {
        bits: call.size_or("bits", 4)?,
        size: call.size_or("block_size", 0)?,
        rows: call.size_or("N", 0)?,
        columns: call.size_or("K", 0)?,
    };
    let weight = call.lift(&blocks.widened(packed, scales, zeros)?)?;
    let (x, bias) = (call.input(0)?, call.optional(5)?);
    let y = x.matmul_with(&weight.transpose(0, 1)?, bias, Activation::None, 1.0)?;
    Ok(vec![y])
}
