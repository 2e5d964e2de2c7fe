//! Tensors as files hold them, and as pools do.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use streampool_device::MAX_RANK;
use streampool_tensor::{DType, Pool, Tensor};

use super::adopt;
use super::external::External;
use super::proto::TensorProto;
use super::small::Small;
use crate::error::{NodeError, Result};
use crate::strings::{self, Strings};

/// The element type that a file means by this number.
pub fn dtype(element: i64) -> Result<DType, NodeError> {
    Ok(match element {
        1 => DType::F32,
        2 => DType::U8,
        3 => DType::I8,
        4 => DType::U16,
        5 => DType::I16,
        6 => DType::I32,
        7 => DType::I64,
        9 => DType::Bool,
        10 => DType::F16,
        11 => DType::F64,
        12 => DType::U32,
        13 => DType::U64,
        16 => DType::BF16,
        8 => return Err(NodeError::unsupported("element type string")),
        14 | 15 => return Err(NodeError::unsupported("an element type of complex numbers")),
        17..=20 | 24 => return Err(NodeError::unsupported("an element type of 8-bit floats")),
        21..=23 | 25..=26 => {
            return Err(NodeError::unsupported(
                "an element type of less than 8 bits",
            ));
        }
        other => return Err(NodeError::unsupported(format_args!("element type {other}"))),
    })
}

/// Takes tensors from files to a pool.
pub struct Importer<'a> {
    pool: &'a Pool,
    external: External,
    /// Weights that a caller gave in place of files, in the pool.
    given: Option<&'a HashMap<String, Tensor>>,
    /// The names of those that were asked for.
    taken: HashSet<&'a str>,
}

impl<'a> Importer<'a> {
    pub fn new(
        pool: &'a Pool,
        external: External,
        given: Option<&'a HashMap<String, Tensor>>,
    ) -> Importer<'a> {
        Importer {
            pool,
            external,
            given,
            taken: HashSet::new(),
        }
    }

    /// Refuses weights that the model does not ask for.
    pub fn all_are_taken(&self) -> Result<()> {
        let left = self.given.iter().flat_map(|given| given.keys());
        let left = left.filter(|name| !self.taken.contains(&name[..]));
        match left.min() {
            None => Ok(()),
            Some(name) => Err(NodeError::malformed(
                "a weight of this name",
                "given",
                "only the weights that the model keeps outside its own file (external data)",
            )
            .of_value(name)),
        }
    }

    /// The weight of this name that a caller gave, if there is one.
    fn given(
        &mut self,
        name: &str,
        dtype: DType,
        shape: &[usize],
    ) -> Result<Option<Tensor>, NodeError> {
        let Some((name, given)) = self.given.and_then(|given| given.get_key_value(name)) else {
            return Ok(None);
        };
        if (given.dtype(), given.shape()) != (dtype, shape) {
            return Err(NodeError::malformed(
                "the weight that was given",
                format_args!("{} {:?}", given.dtype(), given.shape()),
                format_args!("{dtype} {shape:?}, as the model declares it"),
            ));
        }
        self.taken.insert(name);
        Ok(Some(given.clone()))
    }

    /// Where tensors are taken to.
    pub fn pool(&self) -> &'a Pool {
        self.pool
    }

    /// The tensor in the pool. An error tells its name.
    pub fn tensor(&mut self, proto: &TensorProto) -> Result<Tensor> {
        self.unnamed(proto)
            .map_err(|fault| fault.of_value(&proto.name))
    }

    /// A tensor of strings: their places.
    pub fn of_strings(
        &self,
        proto: &TensorProto,
        strings: &mut Strings,
    ) -> Result<Tensor, NodeError> {
        let (shape, _) = sizes(proto, DType::I64)?;
        strings::tensor(strings, &proto.strings, &shape, self.pool)
    }

    /// A tensor of elements that are smaller than those of tensors, in a type that holds their numbers.
    pub fn small(&mut self, proto: &TensorProto) -> Result<Tensor> {
        self.unnamed_small(proto)
            .map_err(|fault| fault.of_value(&proto.name))
    }

    fn unnamed_small(&mut self, proto: &TensorProto) -> Result<Tensor, NodeError> {
        let small = Small::of(proto.element)
            .ok_or_else(|| NodeError::unsupported("another element type"))?;
        let (shape, bytes) = sizes(proto, small.dtype())?;
        if self
            .given
            .is_some_and(|given| given.contains_key(&proto.name))
        {
            let what = "a weight of less than 8 bits, or of 8-bit floats, that is given";
            return Err(NodeError::unsupported(what));
        }
        let count = bytes / small.dtype().size();
        let data = match (proto.location, proto.raw.is_empty()) {
            (TensorProto::EXTERNAL, _) => self.external.data(proto, small.packed(count))?,
            (_, true) => listed(proto, DType::U8),
            (_, false) => proto.raw.clone(),
        };
        if data.len() != small.packed(count) {
            return Err(NodeError::malformed(
                "the data",
                format_args!("{} bytes", data.len()),
                format_args!("{} bytes, for {shape:?}", small.packed(count)),
            ));
        }
        let wide = small.widened(&data, count)?;
        Ok(Tensor::from_bytes(self.pool, small.dtype(), &wide, &shape)?)
    }

    fn unnamed(&mut self, proto: &TensorProto) -> Result<Tensor, NodeError> {
        let dtype = dtype(i64::from(proto.element))?;
        let (shape, bytes) = sizes(proto, dtype)?;
        if proto.location == TensorProto::EXTERNAL {
            if let Some(given) = self.given(&proto.name, dtype, &shape)? {
                return Ok(given);
            }
            let data = self.external.data(proto, bytes)?;
            return Ok(adopt::tensor(self.pool, dtype, data, &shape)?);
        }
        let data = match proto.raw.is_empty() {
            true => listed(proto, dtype),
            false => proto.raw.clone(),
        };
        if data.len() != bytes {
            return Err(NodeError::malformed(
                "the data",
                format_args!("{} bytes", data.len()),
                format_args!("{bytes} bytes, for {shape:?} of {dtype}"),
            ));
        }
        Ok(adopt::tensor(self.pool, dtype, data, &shape)?)
    }
}

/// The shape that a tensor declares, and the bytes that it needs.
fn sizes(proto: &TensorProto, dtype: DType) -> Result<(Vec<usize>, usize), NodeError> {
    if proto.sizes.len() > MAX_RANK {
        let got = format!("{} axes", proto.sizes.len());
        return Err(NodeError::malformed(
            "the shape",
            got,
            format_args!("at most {MAX_RANK}"),
        ));
    }
    let size = |&size: &i64| {
        usize::try_from(size).map_err(|_| NodeError::malformed("a size", size, "not negative"))
    };
    let shape = proto
        .sizes
        .iter()
        .map(size)
        .collect::<Result<Vec<usize>, NodeError>>()?;
    // Steps along axes are made of all other sizes, also where one is zero.
    let mut sizes = shape.iter().filter(|&&size| size > 0);
    let most = sizes.try_fold(dtype.size(), |bytes, &size| bytes.checked_mul(size));
    match most {
        Some(_) if shape.contains(&0) => Ok((shape, 0)),
        Some(bytes) if isize::try_from(bytes).is_ok() => Ok((shape, bytes)),
        _ => Err(NodeError::malformed(
            "the shape",
            format_args!("{shape:?}"),
            "one of sizes that memory can hold",
        )),
    }
}

/// The bytes of values that are listed by number.
fn listed(proto: &TensorProto, dtype: DType) -> Bytes {
    fn flat<T, const N: usize>(values: &[T], bytes: impl Fn(&T) -> [u8; N]) -> Bytes {
        values.iter().flat_map(bytes).collect()
    }
    match dtype {
        DType::F32 => flat(&proto.floats, |value| value.to_ne_bytes()),
        DType::F64 => flat(&proto.doubles, |value| value.to_ne_bytes()),
        DType::I64 => flat(&proto.longs, |value| value.to_ne_bytes()),
        DType::U64 => flat(&proto.unsigned, |value| value.to_ne_bytes()),
        DType::U32 => flat(&proto.unsigned, |value| (*value as u32).to_ne_bytes()),
        DType::I32 => flat(&proto.ints, |value| value.to_ne_bytes()),
        DType::F16 | DType::BF16 | DType::I16 | DType::U16 => {
            flat(&proto.ints, |value| (*value as u16).to_ne_bytes())
        }
        DType::I8 | DType::U8 | DType::Bool => {
            flat(&proto.ints, |value| (*value as u8).to_ne_bytes())
        }
    }
}
