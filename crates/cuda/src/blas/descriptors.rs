//! What the library is told of a product, in its own structures.

use cudarc::cublaslt::sys::{
    self, cublasComputeType_t as Compute, cublasLtEpilogue_t as Epilogue,
    cublasLtMatmulDescAttributes_t as DescriptionAttribute,
    cublasLtMatmulPreferenceAttributes_t as PreferenceAttribute,
    cublasLtMatrixLayoutAttribute_t as LayoutAttribute, cublasLtReductionScheme_t as Reduction,
    cublasStatus_t as Status, cudaDataType_t as Type,
};
use cudarc::driver::sys::CUdeviceptr;
use streampool_device::{Activation, DType};

use super::key::{Alignment, Ending, Key, Terms};
use super::problem::Matrix;
use crate::options::Precision;

pub(super) fn check(status: Status) -> Result<(), Status> {
    match status {
        Status::CUBLAS_STATUS_SUCCESS => Ok(()),
        other => Err(other),
    }
}

fn data_type(dtype: DType) -> Type {
    match dtype {
        DType::F16 => Type::CUDA_R_16F,
        DType::BF16 => Type::CUDA_R_16BF,
        DType::F64 => Type::CUDA_R_64F,
        _ => Type::CUDA_R_32F,
    }
}

fn epilogue(ending: Ending) -> Epilogue {
    use Epilogue::*;
    match (ending.activation, ending.bias) {
        (Activation::Relu, false) => CUBLASLT_EPILOGUE_RELU,
        (Activation::Relu, true) => CUBLASLT_EPILOGUE_RELU_BIAS,
        (Activation::GeluTanh, false) => CUBLASLT_EPILOGUE_GELU,
        (Activation::GeluTanh, true) => CUBLASLT_EPILOGUE_GELU_BIAS,
        (_, false) => CUBLASLT_EPILOGUE_DEFAULT,
        (_, true) => CUBLASLT_EPILOGUE_BIAS,
    }
}

/// How the elements of the result come about.
pub(super) struct Method {
    compute: Compute,
    /// The type of alpha.
    pub scale: Type,
    a_turned: bool,
    b_turned: bool,
    epilogue: Epilogue,
}

impl Method {
    pub fn new(key: &Key, precision: Precision) -> Method {
        let (compute, scale) = match (key.factors, precision) {
            (DType::F64, _) => (Compute::CUBLAS_COMPUTE_64F, Type::CUDA_R_64F),
            (DType::F32, Precision::Tf32) => {
                (Compute::CUBLAS_COMPUTE_32F_FAST_TF32, Type::CUDA_R_32F)
            }
            (DType::F32, Precision::Bf16) => {
                (Compute::CUBLAS_COMPUTE_32F_FAST_16BF, Type::CUDA_R_32F)
            }
            (DType::F32, Precision::F16) => {
                (Compute::CUBLAS_COMPUTE_32F_FAST_16F, Type::CUDA_R_32F)
            }
            _ => (Compute::CUBLAS_COMPUTE_32F, Type::CUDA_R_32F),
        };
        Method {
            compute,
            scale,
            a_turned: key.problem.a.turned,
            b_turned: key.problem.b.turned,
            epilogue: epilogue(key.ending),
        }
    }
}

/// How one call multiplies, as the library keeps it. The address of a bias is a part of it, so calls do not
/// share it: each makes its own, on its stack.
pub(super) struct Description(sys::cublasLtMatmulDescOpaque_t);

impl Description {
    pub fn blank() -> Description {
        Description(sys::cublasLtMatmulDescOpaque_t { data: [0; 32] })
    }

    pub fn raw(&mut self) -> sys::cublasLtMatmulDesc_t {
        &raw mut self.0
    }

    pub fn describe(&mut self, method: &Method, bias: CUdeviceptr) -> Result<(), Status> {
        // SAFETY: the library is told how much room there is.
        check(unsafe {
            sys::cublasLtMatmulDescInit_internal(
                self.raw(),
                size_of::<sys::cublasLtMatmulDescOpaque_t>(),
                method.compute,
                method.scale,
            )
        })?;
        use DescriptionAttribute::*;
        // The library's number for a transposed factor.
        const TURNED: i32 = 1;
        if method.a_turned {
            self.set(CUBLASLT_MATMUL_DESC_TRANSA, TURNED)?;
        }
        if method.b_turned {
            self.set(CUBLASLT_MATMUL_DESC_TRANSB, TURNED)?;
        }
        if method.epilogue != Epilogue::CUBLASLT_EPILOGUE_DEFAULT {
            self.set(CUBLASLT_MATMUL_DESC_EPILOGUE, method.epilogue)?;
        }
        if bias != 0 {
            self.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias)?;
        }
        Ok(())
    }

    fn set<T: Copy>(&mut self, attribute: DescriptionAttribute, value: T) -> Result<(), Status> {
        // SAFETY: the description was begun, and the value is as long as is said.
        check(unsafe {
            sys::cublasLtMatmulDescSetAttribute(
                self.raw(),
                attribute,
                (&raw const value).cast(),
                size_of::<T>(),
            )
        })
    }
}

/// A matrix as the library keeps it; read only once it is made.
pub(super) struct Layout(sys::cublasLtMatrixLayout_t);

// SAFETY: it is memory that only the library looks into, and nobody writes it once it is made.
unsafe impl Send for Layout {}
// SAFETY: as above.
unsafe impl Sync for Layout {}

impl Layout {
    pub fn new(
        dtype: DType,
        matrix: &Matrix,
        rows: usize,
        columns: usize,
        batch: i32,
    ) -> Result<Layout, Status> {
        let mut raw = std::ptr::null_mut();
        let (rows, columns) = (rows as u64, columns as u64);
        // SAFETY: it writes one pointer, to memory of the library's own.
        check(unsafe {
            sys::cublasLtMatrixLayoutCreate(&mut raw, data_type(dtype), rows, columns, matrix.lead)
        })?;
        let layout = Layout(raw);
        if batch > 1 {
            use LayoutAttribute::*;
            layout.set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, batch)?;
            layout.set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, matrix.batch)?;
        }
        Ok(layout)
    }

    pub fn raw(&self) -> sys::cublasLtMatrixLayout_t {
        self.0
    }

    fn set<T: Copy>(&self, attribute: LayoutAttribute, value: T) -> Result<(), Status> {
        // SAFETY: the layout was made, and the value is as long as is said.
        check(unsafe {
            sys::cublasLtMatrixLayoutSetAttribute(
                self.0,
                attribute,
                (&raw const value).cast(),
                size_of::<T>(),
            )
        })
    }
}

impl Drop for Layout {
    fn drop(&mut self) {
        // SAFETY: it was made once, and no call uses it any more. It is host memory.
        unsafe { sys::cublasLtMatrixLayoutDestroy(self.0) };
    }
}

/// What is asked of an algorithm.
pub(super) struct Preference(sys::cublasLtMatmulPreference_t);

impl Preference {
    pub fn new(key: &Key, terms: &Terms) -> Result<Preference, Status> {
        use PreferenceAttribute::*;
        let mut raw = std::ptr::null_mut();
        // SAFETY: it writes one pointer, to memory of the library's own.
        check(unsafe { sys::cublasLtMatmulPreferenceCreate(&mut raw) })?;
        let preference = Preference(raw);
        preference.set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, terms.workspace)?;
        let Alignment { a, b, out } = key.alignment;
        for (attribute, exponent) in [
            (CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, a),
            (CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, b),
            (CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, out),
            (CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, out),
        ] {
            preference.set(attribute, 1u32 << exponent)?;
        }
        // Parts of a sum are never rounded to half precision before they are added up.
        if matches!(key.result, DType::F16 | DType::BF16) {
            let exact = Reduction::CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE as u32;
            preference.set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, exact)?;
        }
        Ok(preference)
    }

    pub fn raw(&self) -> sys::cublasLtMatmulPreference_t {
        self.0
    }

    fn set<T: Copy>(&self, attribute: PreferenceAttribute, value: T) -> Result<(), Status> {
        // SAFETY: the preference was made, and the value is as long as is said.
        check(unsafe {
            sys::cublasLtMatmulPreferenceSetAttribute(
                self.0,
                attribute,
                (&raw const value).cast(),
                size_of::<T>(),
            )
        })
    }
}

impl Drop for Preference {
    fn drop(&mut self) {
        // SAFETY: it was made once, and no call uses it any more.
        unsafe { sys::cublasLtMatmulPreferenceDestroy(self.0) };
    }
}
