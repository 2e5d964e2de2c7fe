//! Inputs that are made up: what they are called says what models expect of them.

use streampool::model::ValueInfo;
use streampool::{Array, DType, Pool, Tensor};

use crate::Result;
use crate::noise::Noise;

/// Whole numbers are below this: any vocabulary has so many words.
const MOST: u64 = 249;

/// What is in a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    /// The same number throughout.
    All(u16),
    /// Whole numbers from 1.
    Counting(u64),
    /// Values around 0.
    Normal,
}

/// Values of these shapes for `ports`, from `seed`.
pub fn made(
    ports: &[ValueInfo],
    shapes: &[Vec<usize>],
    seed: u64,
    pool: &Pool,
) -> Result<Vec<Array>> {
    let mut noise = Noise::new(seed);
    let each = ports.iter().zip(shapes);
    each.map(|(port, shape)| one(port, shape, &mut noise, pool))
        .collect()
}

fn one(port: &ValueInfo, shape: &[usize], noise: &mut Noise, pool: &Pool) -> Result<Array> {
    let name = &port.name;
    let Some(dtype) = port.dtype else {
        let why = "the model does not say the type of its input";
        return Err(format!("{why} `{name}`: give it by --input").into());
    };
    let count = shape
        .iter()
        .try_fold(1usize, |all, &size| all.checked_mul(size));
    // Some systems promise more than there is.
    let capacity = pool.device().properties().memory_capacity / size_of::<f32>();
    let room = count
        .filter(|&count| count <= capacity && Vec::<f32>::new().try_reserve_exact(count).is_ok());
    let Some(count) = room else {
        return Err(format!("there is no memory for {shape:?} of input `{name}`").into());
    };
    let values = match content(name, dtype) {
        Content::All(value) => vec![f32::from(value); count],
        Content::Counting(most) => noise.counting(count, most),
        Content::Normal => noise.normal(count),
    };
    let values = Tensor::from_slice(pool, &values, shape)?;
    Ok(Array::of(&values.to_dtype(dtype)?)?)
}

fn content(name: &str, dtype: DType) -> Content {
    let name = name.to_ascii_lowercase();
    let has = |parts: [&str; 2]| parts.iter().any(|part| name.contains(part));
    match dtype {
        _ if has(["mask", "attention"]) => Content::All(1),
        DType::Bool => Content::All(1),
        float if float.is_float() => Content::Normal,
        _ if has(["token_type", "segment"]) => Content::All(0),
        wide if name == "sr" && wide.size() > 2 => Content::All(16_000),
        DType::I8 => Content::Counting(i8::MAX as u64),
        _ => Content::Counting(MOST),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_is_expected() {
        for (name, dtype, content) in [
            ("input_ids", DType::I64, Content::Counting(MOST)),
            ("attention_mask", DType::I64, Content::All(1)),
            ("token_type_ids", DType::I32, Content::All(0)),
            ("sr", DType::I64, Content::All(16_000)),
            ("pixels", DType::F16, Content::Normal),
            ("bytes", DType::I8, Content::Counting(127)),
        ] {
            assert_eq!(super::content(name, dtype), content, "{name}");
        }
    }

    #[test]
    fn a_seed_gives_the_same_again() {
        let pool = streampool::host_pool().unwrap();
        let port = |dtype| ValueInfo {
            name: "x".to_owned(),
            dtype,
            ..ValueInfo::default()
        };
        let make = |seed, dtype| made(&[port(Some(dtype))], &[vec![2, 3]], seed, &pool).unwrap();
        assert!(make(1, DType::F16) == make(1, DType::F16));
        assert!(make(1, DType::I64) != make(2, DType::I64));
        assert_eq!(make(1, DType::BF16)[0].dtype(), DType::BF16);
        let untyped = made(&[port(None)], &[vec![1]], 0, &pool).unwrap_err();
        assert!(untyped.to_string().contains("--input"), "{untyped}");
        let vast = made(&[port(Some(DType::F32))], &[vec![1 << 60]], 0, &pool).unwrap_err();
        assert!(vast.to_string().contains("no memory"), "{vast}");
    }
}
