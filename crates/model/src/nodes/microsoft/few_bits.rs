//! Products with weights of a few bits, which share a scale block by block.

use streampool_tensor::{Activation, DType, Tensor};

use super::super::call::{Call, Operator, Outputs, resolve};
use crate::error::NodeError;

pub fn operator(op: &str) -> Option<Operator> {
    Some(match op {
        "MatMulNBits" => matmul,
        "MatMulBnb4" => matmul_by_table,
        "GatherBlockQuantized" => gather,
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

/// What the sixteen codes of `FP4` stand for, of a scale of one.
const FP4: [f32; 16] = [
    0.0,
    5.208_333_5e-3,
    0.666_666_7,
    1.0,
    0.333_333_34,
    0.5,
    0.166_666_67,
    0.25,
    0.0,
    -5.208_333_5e-3,
    -0.666_666_7,
    -1.0,
    -0.333_333_34,
    -0.5,
    -0.166_666_67,
    -0.25,
];

/// Those of `NF4`: evenly likely parts of a normal distribution.
const NF4: [f32; 16] = [
    -1.0,
    -0.696_192_8,
    -0.525_073_05,
    -0.394_917_5,
    -0.284_441_38,
    -0.184_773_43,
    -0.091_050_036,
    0.0,
    0.079_580_3,
    0.160_930_2,
    0.246_112_3,
    0.337_915_24,
    0.440_709_83,
    0.562_617,
    0.722_956_84,
    1.0,
];

/// A product with weights that are places in a table, packed with the first of two in the high bits.
fn matmul_by_table(call: &Call<'_>) -> Outputs {
    let [packed, scales, _] = call.beside([1, 2, 2])?;
    let (Some(packed), Some(scales)) = (packed, scales) else {
        return Err(NodeError::malformed(
            "the weights",
            "left out",
            "weights and scales",
        ));
    };
    let table = match call.int_or("quant_type", 0)? {
        0 => FP4,
        1 => NF4,
        other => return Err(call.unknown("quant_type", other)),
    };
    let (rows, columns) = (call.size_or("N", 0)?, call.size_or("K", 0)?);
    let block = call.size_or("block_size", 0)?.max(1);
    let count = rows.saturating_mul(columns);
    let bytes = packed.reshape(&[-1i64])?;
    let table = Tensor::from_slice(call.known_pool(), &table, &[16])?;
    let table = match bytes.pool() == call.known_pool() {
        true => table,
        false => call.lift(&table)?,
    };
    let codes = Tensor::stack(
        &[&bytes.bitwise_right_shift(4)?, &bytes.bitwise_and(15)?],
        1,
    )?;
    let codes = codes.reshape(&[-1i64])?.narrow(0, 0, count)?;
    let values = table.index_select(0, &codes.to_dtype(DType::I32)?)?;
    let scales = scales.reshape(&[-1i64])?.repeat_interleave(block, 0)?;
    let scales = scales.narrow(0, 0, count)?;
    let weight = values.to_dtype(scales.dtype())?.mul(&scales)?;
    let mut weight = call.lift(&weight.reshape(&[rows, columns])?)?;
    if call.flag_or("transB", true)? {
        weight = weight.transpose(0, 1)?;
    }
    let y = call
        .input(0)?
        .matmul_with(&weight, None, Activation::None, 1.0)?;
    Ok(vec![y])
}

/// Some rows of a matrix of few bits, as the numbers that they stand for.
fn gather(call: &Call<'_>) -> Outputs {
    let (data, indices, scales) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let (rank, given) = (data.rank(), data.dtype());
    let axis = resolve(call.axis_or("quantize_axis", 1)?, rank)?;
    let bits = call.size_or("bits", 4)?;
    // Numbers with a sign are not packed.
    let is_signed = given == DType::I8 && bits == 8;
    if call.int_or("gather_axis", 0)? != 0 || axis == 0 || !(given == DType::U8 || is_signed) {
        let what = format_args!("a choice among {given} but along the first axis");
        return Err(NodeError::unsupported(what));
    }
    if !matches!(bits, 2 | 4 | 8) {
        return Err(call.unknown("bits", bits));
    }
    let block = call.size_or("block_size", 128)?;
    // From the back: there may be several axes of indices.
    let from_back = axis as isize - rank as isize;
    let packing = FewBits {
        bits,
        size: block,
        rows: 1,
        columns: 1,
    };
    let chosen = |tensor: &Tensor| -> Result<Tensor, NodeError> {
        let bytes = tensor.index_select(0, indices)?;
        let mut shape = bytes.shape().to_vec();
        if let Some(last) = shape.last_mut() {
            *last = last.saturating_mul(8 / bits);
        }
        Ok(packing.unpacked(&bytes)?.reshape(&shape)?)
    };
    let values = chosen(data)?.to_dtype(scales.dtype())?;
    let whole = values.dim(from_back)?;
    let spread = |tensor: &Tensor| -> Result<Tensor, NodeError> {
        let repeated = tensor.repeat_interleave(block, from_back)?;
        Ok(repeated.narrow(from_back, 0, whole)?)
    };
    let scales = scales.index_select(0, indices)?;
    let zeroed = match call.optional(3)? {
        Some(zeros) => {
            let zeros = chosen(zeros)?.narrow(from_back, 0, scales.dim(from_back)?)?;
            values.sub(&spread(&zeros.to_dtype(scales.dtype())?)?)?
        }
        None if is_signed => values,
        None => values.sub((1i64 << (bits - 1)) as f64)?,
    };
    Ok(vec![zeroed.mul(&spread(&scales)?)?])
}
