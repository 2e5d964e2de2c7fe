//! What tensors do: operators, as NumPy's arrays have them.

use pyo3::exceptions::{PyAttributeError, PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyEllipsis, PyList, PyTuple};
use streampool::device::DType;

use crate::arrays::{Library, dtype_name, from_array, to_array};
use crate::devices::pool;
use crate::errors::{invalid, raise};
use crate::tensor::{Tensor, named_dtype, on_chosen, promoted};

/// The methods that are alike, and the others.
macro_rules! methods {
    (unary: $($unary:ident)*; reduced: $($reduced:ident)*; along: $($along:ident)*; bitwise: $($bitwise:ident)*; $($rest:tt)*) => {
        /// What a tensor can do, for the error of what it cannot.
        const OPERATORS: &[&str] = &[$(stringify!($unary),)* $(stringify!($reduced),)* $(stringify!($along),)* "matmul", "reshape",
            "transpose", "permute", "flip", "pow", "clip", "where", "astype", "std", "norm", "argmax", "argmin", "topk", "sort",
            "masked_select"];

        #[pymethods]
        impl Tensor {
            $(
                fn $unary(&self, py: Python<'_>) -> PyResult<Tensor> {
                    self.made(py, |own| own.$unary())
                }
            )*
            $(
                #[pyo3(signature = (axis=None, keepdims=false))]
                fn $reduced(&self, py: Python<'_>, axis: Option<&Bound<'_, PyAny>>, keepdims: bool) -> PyResult<Tensor> {
                    let axes = self.axes(axis)?;
                    let floats = stringify!($reduced) == "mean" && !self.0.dtype().is_float();
                    self.made(py, |own| match floats {
                        true => own.to_dtype(DType::F64)?.$reduced(&axes, keepdims),
                        false => own.$reduced(&axes, keepdims),
                    })
                }
            )*
            $(
                #[pyo3(signature = (axis=-1))]
                fn $along(&self, py: Python<'_>, axis: isize) -> PyResult<Tensor> {
                    self.made(py, |own| own.$along(axis))
                }
            )*
            $(
                fn $bitwise(&self, other: &Bound<'_, PyAny>) -> PyResult<Tensor> {
                    self.with(other, false, |own, other| own.$bitwise(other))
                }
            )*
            $($rest)*
        }
    };
}

methods! {
    unary: exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf
        floor ceil round trunc abs sign square sigmoid relu silu softplus is_nan is_inf is_finite logical_not squeeze_all;
    reduced: sum prod mean min max all any log_sum_exp;
    along: softmax log_softmax cumsum cumprod unsqueeze squeeze;
    bitwise: minimum maximum logical_and logical_or logical_xor;

    /// Makes a tensor of an array, a list or a number.
    #[new]
    #[pyo3(signature = (values, device="auto", *, dtype=None))]
    fn new(py: Python<'_>, values: &Bound<'_, PyAny>, device: &str, dtype: Option<&Bound<'_, PyAny>>) -> PyResult<Tensor> {
        if let Ok(tensor) = values.cast::<Tensor>() {
            let pool = pool(py, device)?;
            let inner = tensor.get().0.clone();
            return on_chosen(py, &pool, || inner.to(&pool)).map(Tensor);
        }
        let pool = pool(py, device)?;
        let dtype = dtype.map(named_dtype).transpose()?;
        let array = to_array(values, dtype)?;
        let made = on_chosen(py, &pool, || {
            let made = array.tensor(&pool)?;
            match dtype {
                Some(dtype) => made.to_dtype(dtype),
                None => Ok(made),
            }
        });
        made.map(Tensor)
    }

    /// The size of each axis.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.shape())
    }

    /// The type of its elements, as NumPy names it.
    #[getter]
    fn dtype(&self) -> &'static str {
        dtype_name(self.0.dtype())
    }

    /// The device it is on.
    #[getter]
    fn device(&self) -> String {
        self.0.device().to_owned()
    }

    /// How many axes it has.
    #[getter]
    fn ndim(&self) -> usize {
        self.0.rank()
    }

    /// How many elements it has.
    #[getter]
    fn size(&self) -> usize {
        self.0.elem_count()
    }

    /// Its axes in the other order.
    #[getter(T)]
    fn transposed(&self, py: Python<'_>) -> PyResult<Tensor> {
        let order: Vec<isize> = (0..self.0.rank() as isize).rev().collect();
        self.made(py, |own| own.permute(&order))
    }

    /// It as an array of NumPy, after waiting for it.
    fn numpy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        from_array(py, self.array(py)?, Library::NumPy)
    }

    /// It as a tensor of PyTorch on the same device.
    fn torch<'py>(slf: &Bound<'py, Tensor>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        match crate::torch::gpu(slf.get().0.pool()) {
            None => from_array(py, slf.get().array(py)?, Library::Torch),
            // PyTorch may write its own.
            Some(_) => py.import("torch")?.call_method1("from_dlpack", (slf,))?.call_method0("clone"),
        }
    }

    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(&self, py: Python<'py>, dtype: Option<&Bound<'py, PyAny>>, copy: Option<bool>) -> PyResult<Bound<'py, PyAny>> {
        let _ = copy;
        let array = self.numpy(py)?;
        match dtype {
            Some(dtype) => array.call_method1("astype", (dtype,)),
            None => Ok(array),
        }
    }

    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<&Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _ = (stream, dl_device, copy);
        // It is computed when it is handed over: any stream may read it.
        crate::capsule::export(py, &self.0, max_version.is_some_and(|(major, _)| major >= 1))
    }

    fn __dlpack_device__(&self, py: Python<'_>) -> PyResult<(i32, i32)> {
        match (crate::torch::gpu(self.0.pool()), self.0.pool().device().properties().unified_memory) {
            (Some(number), _) => Ok((2, number)),
            (None, _) if self.0.pool().device().properties().kind == streampool::device::DeviceKind::Host => Ok((1, 0)),
            _ => Err(invalid(py, "memory of this device cannot be shared by DLPack: use numpy()")),
        }
    }

    /// Its only element as a number of Python.
    fn item<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.numpy(py)?.call_method0("item")
    }

    /// Its elements as lists of Python.
    fn tolist<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.numpy(py)?.call_method0("tolist")
    }

    /// It in another type.
    fn astype(&self, py: Python<'_>, dtype: &Bound<'_, PyAny>) -> PyResult<Tensor> {
        let dtype = named_dtype(dtype)?;
        self.made(py, |own| own.to_dtype(dtype))
    }

    /// It on another device.
    fn to(&self, py: Python<'_>, device: &str) -> PyResult<Tensor> {
        let pool = pool(py, device)?;
        on_chosen(py, &pool, || self.0.to(&pool)).map(Tensor)
    }

    /// It in another shape; one size may be -1.
    #[pyo3(signature = (*shape))]
    fn reshape(&self, py: Python<'_>, shape: &Bound<'_, PyTuple>) -> PyResult<Tensor> {
        let sizes: Vec<isize> = match shape.len() {
            1 => shape.get_item(0)?.extract().or_else(|_| shape.extract())?,
            _ => shape.extract()?,
        };
        self.made(py, |own| own.reshape(&sizes))
    }

    /// Two axes changed for each other, or, without them, all in the other order.
    #[pyo3(signature = (a=None, b=None))]
    fn transpose(&self, py: Python<'_>, a: Option<isize>, b: Option<isize>) -> PyResult<Tensor> {
        match (a, b) {
            (Some(a), Some(b)) => self.made(py, |own| own.transpose(a, b)),
            (None, None) => self.transposed(py),
            _ => Err(PyTypeError::new_err("transpose takes two axes or none")),
        }
    }

    /// Its axes in this order.
    #[pyo3(signature = (*order))]
    fn permute(&self, py: Python<'_>, order: Vec<isize>) -> PyResult<Tensor> {
        self.made(py, |own| own.permute(&order))
    }

    /// Its elements the other way round along these axes.
    fn flip(&self, py: Python<'_>, axis: &Bound<'_, PyAny>) -> PyResult<Tensor> {
        let axes = self.axes(Some(axis))?;
        self.made(py, |own| own.flip(&axes))
    }

    /// A matrix product.
    fn matmul(&self, other: &Bound<'_, PyAny>) -> PyResult<Tensor> {
        let other_tensor = self.tensor_like(other)?;
        let dtype = promoted(other.py(), self.0.dtype(), other_tensor.dtype())?;
        self.made(other.py(), |own| own.to_dtype(dtype)?.matmul(&other_tensor.to_dtype(dtype)?))
    }

    /// Each element, but at least `low` and at most `high`.
    fn clip(&self, py: Python<'_>, low: f64, high: f64) -> PyResult<Tensor> {
        self.made(py, |own| own.clamp(low, high))
    }

    /// Elements of `a` where this is true, else of `b`.
    #[pyo3(name = "where")]
    fn where_(&self, a: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>) -> PyResult<Tensor> {
        let py = a.py();
        let (a, b) = (self.tensor_like(a)?, self.tensor_like(b)?);
        let dtype = promoted(py, a.dtype(), b.dtype())?;
        self.made(py, |own| own.where_cond(&a.to_dtype(dtype)?, &b.to_dtype(dtype)?))
    }

    /// The elements where a mask is true, as one axis.
    fn masked_select(&self, py: Python<'_>, mask: &Bound<'_, PyAny>) -> PyResult<Tensor> {
        let mask = self.tensor_like(mask)?;
        self.made(py, |own| own.masked_select(&mask))
    }

    /// The standard deviation; `ddof` is taken from the count.
    #[pyo3(signature = (axis=None, ddof=0, keepdims=false))]
    fn std(&self, py: Python<'_>, axis: Option<&Bound<'_, PyAny>>, ddof: usize, keepdims: bool) -> PyResult<Tensor> {
        let axes = self.axes(axis)?;
        self.made(py, |own| own.std(&axes, ddof, keepdims))
    }

    /// The place of the largest element along an axis.
    #[pyo3(signature = (axis=-1, keepdims=false))]
    fn argmax(&self, py: Python<'_>, axis: isize, keepdims: bool) -> PyResult<Tensor> {
        self.made(py, |own| own.argmax(axis, keepdims))
    }

    /// The place of the smallest element along an axis.
    #[pyo3(signature = (axis=-1, keepdims=false))]
    fn argmin(&self, py: Python<'_>, axis: isize, keepdims: bool) -> PyResult<Tensor> {
        self.made(py, |own| own.argmin(axis, keepdims))
    }

    /// The largest elements along an axis, and their places.
    #[pyo3(signature = (count, axis=-1, largest=true))]
    fn topk(&self, py: Python<'_>, count: usize, axis: isize, largest: bool) -> PyResult<(Tensor, Tensor)> {
        let (values, places) = on_chosen(py, self.0.pool(), || self.0.topk(count, axis, largest))?;
        Ok((Tensor(values), Tensor(places)))
    }

    /// Its elements in order along an axis.
    #[pyo3(signature = (axis=-1, descending=false))]
    fn sort(&self, py: Python<'_>, axis: isize, descending: bool) -> PyResult<Tensor> {
        self.made(py, |own| own.sort(axis, descending).map(|(values, _)| values))
    }

    fn __add__(&self, other: &Bound<'_, PyAny>) -> PyResult<Tensor> {
        self.with(other, false, |own, other| own.add(other))
    }

    fn __radd__(&self, other: &Bound<'_, PyAny>) -> PyResult<Tensor> {
        self.with(other, false, |own, other| own.add(other))
    }

    fn __sub__(&self, other: &Bound<'_, PyAny>) -> PyResult<Tensor> {
        self.with(other, false, |own, other| own.sub(other))
    }

    fn __rsub__(&self, other: &Bound<'_, PyAny>) -> PyResult<Tensor> {
        self.with(other, false, |own, other| own.rsub(other))
    }

    fn __mul__(&self, other: &Bound<'_, PyAny>) -> PyResult<Tensor> {
        self.with(other, false, |own, other| own.mul(other))
    }

    fn __rmul__(&self, other: &Bound<'_, PyAny>) -> PyResult<Tensor> {
        self.with(other, false, |own, other| own.mul(other))
    }

    fn __truediv__(&self, other: &Bound<'_, PyAny>) -> PyResult<Tensor> {
        self.with(other, true, |own, other| own.div(other))
    }

    fn __rtruediv__(&self, other: &Bound<'_, PyAny>) -> PyResult<Tensor> {
        self.with(other, true, |own, other| own.rdiv(other))
    }

    fn __floordiv__(&self, other: &Bound<'_, PyAny>) -> PyResult<Tensor> {
        self.with(other, false, |own, other| own.floor_div(other))
    }

    fn __mod__(&self, other: &Bound<'_, PyAny>) -> PyResult<Tensor> {
        self.with(other, false, |own, other| own.modulo(other))
    }

    fn __pow__(&self, other: &Bound<'_, PyAny>, modulo: Option<&Bound<'_, PyAny>>) -> PyResult<Tensor> {
        if modulo.is_some() {
            return Err(PyTypeError::new_err("a power of a tensor takes no modulus"));
        }
        self.with(other, false, |own, other| own.pow(other))
    }

    fn __rpow__(&self, other: &Bound<'_, PyAny>, _modulo: Option<&Bound<'_, PyAny>>) -> PyResult<Tensor> {
        self.with(other, false, |own, other| own.rpow(other))
    }

    fn __matmul__(&self, other: &Bound<'_, PyAny>) -> PyResult<Tensor> {
        self.matmul(other)
    }

    fn __and__(&self, other: &Bound<'_, PyAny>) -> PyResult<Tensor> {
        self.with(other, false, |own, other| own.bitwise_and(other))
    }

    fn __or__(&self, other: &Bound<'_, PyAny>) -> PyResult<Tensor> {
        self.with(other, false, |own, other| own.bitwise_or(other))
    }

    fn __xor__(&self, other: &Bound<'_, PyAny>) -> PyResult<Tensor> {
        self.with(other, false, |own, other| own.bitwise_xor(other))
    }

    fn __neg__(&self, py: Python<'_>) -> PyResult<Tensor> {
        self.made(py, |own| own.neg())
    }

    fn __abs__(&self, py: Python<'_>) -> PyResult<Tensor> {
        self.abs(py)
    }

    fn __invert__(&self, py: Python<'_>) -> PyResult<Tensor> {
        self.made(py, |own| own.bitwise_not())
    }

    fn __richcmp__(&self, other: &Bound<'_, PyAny>, how: pyo3::basic::CompareOp) -> PyResult<Tensor> {
        use pyo3::basic::CompareOp;
        self.with(other, false, |own, other| match how {
            CompareOp::Lt => own.lt(other),
            CompareOp::Le => own.le(other),
            CompareOp::Eq => own.eq(other),
            CompareOp::Ne => own.ne(other),
            CompareOp::Gt => own.gt(other),
            CompareOp::Ge => own.ge(other),
        })
    }

    fn __getitem__(&self, py: Python<'_>, index: &Bound<'_, PyAny>) -> PyResult<Tensor> {
        let all: Vec<Bound<'_, PyAny>> = match index.cast::<PyTuple>() {
            Ok(tuple) => tuple.iter().collect(),
            Err(_) => vec![index.clone()],
        };
        let is_dots = |index: &Bound<'_, PyAny>| index.is_instance_of::<PyEllipsis>();
        let taken = all.iter().filter(|index| !index.is_none() && !is_dots(index)).count();
        if taken > self.0.rank() {
            let why = format!("{taken} indices were given, the tensor has {} axes", self.0.rank());
            return Err(PyIndexError::new_err(why));
        }
        if all.iter().filter(|index| is_dots(index)).count() > 1 {
            return Err(PyIndexError::new_err("an index has one ... at most"));
        }
        let (mut inner, mut axis) = (self.0.clone(), 0);
        for index in &all {
            if is_dots(index) {
                axis += (self.0.rank() - taken) as isize;
            } else if index.is_none() {
                let widened = inner.unsqueeze(axis);
                inner = widened.map_err(|error| raise(py, streampool::Error::from(error)))?;
                axis += 1;
            } else {
                let (next, is_left) = Tensor::indexed(inner, axis, index)?;
                inner = next;
                axis += isize::from(is_left);
            }
        }
        Ok(Tensor(inner))
    }

    fn __len__(&self) -> PyResult<usize> {
        let first = self.0.shape().first().copied();
        first.ok_or_else(|| PyTypeError::new_err("a tensor without axes has no length"))
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let count = self.__len__()?;
        let rows = (0..count as isize).map(|row| {
            let row = self.0.select(0, row).map_err(|error| raise(py, streampool::Error::from(error)))?;
            Bound::new(py, Tensor(row))
        });
        let rows = PyList::new(py, rows.collect::<PyResult<Vec<_>>>()?)?;
        Ok(rows.try_iter()?.into_any())
    }

    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        if self.0.elem_count() != 1 {
            return Err(PyValueError::new_err("only a tensor of one element is true or false: use all() or any()"));
        }
        self.item(py)?.is_truthy()
    }

    fn __float__(&self, py: Python<'_>) -> PyResult<f64> {
        self.item(py)?.extract()
    }

    fn __int__(&self, py: Python<'_>) -> PyResult<i64> {
        self.item(py)?.call_method0("__int__")?.extract()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let values = self.numpy(py)?.repr()?.to_string();
        let values = values.trim_start_matches("array(").trim_end_matches(')');
        let values = values.split(", dtype=").next().unwrap_or(values);
        Ok(format!("Tensor({values}, {}, {})", self.dtype(), self.device()))
    }

    fn __getattr__(&self, name: &str) -> PyResult<()> {
        let why = match name.starts_with("__") {
            true => format!("a tensor has no {name}"),
            false => format!(
                "a tensor has no operator {name}; it has {}. numpy() and torch() give it to libraries that have more",
                OPERATORS.join(", ")
            ),
        };
        Err(PyAttributeError::new_err(why))
    }
}
