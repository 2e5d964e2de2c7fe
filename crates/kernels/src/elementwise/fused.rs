//! Expressions as parts of keys: constants are parameters of the kernel, and no part of it.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use streampool_device::{DType, Expr, Node, Scalar, Value};

use super::constant::computed;
use crate::Params;
use crate::text::{Field, compute_type};

/// The most constants that are parameters. An expression with more has all of them in its text.
const MOST_CONSTANTS: usize = 64;

/// An expression as a part of a key. Those that differ in nothing but constants share a kernel.
#[derive(Debug, Clone)]
pub(super) struct Fused {
    expr: Arc<Expr>,
    /// How many constants are parameters.
    constants: usize,
}

impl Fused {
    pub(super) fn new(expr: &Arc<Expr>) -> Fused {
        let count = constants(expr).count();
        Fused {
            expr: expr.clone(),
            constants: if count > MOST_CONSTANTS { 0 } else { count },
        }
    }

    pub(super) fn expr(&self) -> &Expr {
        &self.expr
    }

    /// The constants that are parameters, in the order of their nodes.
    fn parameters(&self) -> impl Iterator<Item = (Scalar, DType)> + '_ {
        constants(&self.expr).take(self.constants)
    }

    /// The types in which the constants that are parameters are computed.
    pub(super) fn types(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.parameters().map(|(_, dtype)| compute_type(dtype))
    }

    /// The values of [`fields`](Self::fields).
    pub(super) fn params(&self) -> Params {
        self.parameters()
            .fold(Params::new(), |params, (value, dtype)| {
                let bits = computed(value, dtype);
                match dtype.size() {
                    8 => params.i64(bits as i64),
                    _ => params.u32(bits as u32),
                }
            })
    }

    /// The kernel's parameters that hold constants.
    pub(super) fn fields(&self) -> Vec<Field> {
        let parameters = self.parameters().enumerate();
        parameters
            .map(|(index, (_, dtype))| Field::new(field_type(dtype), constant_name(index)))
            .collect()
    }

    /// The constants as `evaluate` is given them.
    pub(super) fn arguments(&self) -> Vec<String> {
        let parameters = self.parameters().enumerate();
        let argument = |(index, (_, dtype))| {
            let field = format!("p.{}", constant_name(index));
            match dtype {
                DType::Bool => format!("({field} != 0)"),
                dtype if field_type(dtype) == compute_type(dtype) => field,
                narrow => format!("{}({field})", compute_type(narrow)),
            }
        };
        parameters.map(argument).collect()
    }

    /// Bytes of [`params`](Self::params), at most.
    pub(super) fn params_size(&self) -> usize {
        8 * self.constants
    }

    /// What equal keys have in common of a node, in one word.
    fn word(&self, &(node, dtype): &(Node, DType)) -> u64 {
        let place = |value: Value, at: u32| (value.index() as u64) << (16 * at);
        let (tag, function, operands) = match node {
            Node::Input(input) => (0, 0, u64::from(input) << 16),
            Node::Const(_) => (1, 0, 0),
            Node::Unary(function, x) => (2, function as u64, place(x, 1)),
            Node::Binary(function, x, y) => (3, function as u64, place(x, 1) | place(y, 2)),
            Node::Compare(comparison, x, y) => (4, comparison as u64, place(x, 1) | place(y, 2)),
            Node::Select(c, x, y) => (5, 0, place(c, 1) | place(x, 2) | place(y, 3)),
            Node::Cast(x) => (6, 0, place(x, 1)),
        };
        tag | (dtype as u64) << 3 | function << 8 | operands
    }
}

impl PartialEq for Fused {
    fn eq(&self, other: &Fused) -> bool {
        if Arc::ptr_eq(&self.expr, &other.expr) {
            return true;
        }
        let (one, two) = (self.expr(), other.expr());
        let alike = |(one, two): (&(Node, DType), &(Node, DType))| match (one, two) {
            ((Node::Const(_), of), (Node::Const(_), other)) if self.constants > 0 => of == other,
            _ => one == two,
        };
        self.constants == other.constants
            && one.nodes().len() == two.nodes().len()
            && one.outputs() == two.outputs()
            && one.nodes().iter().zip(two.nodes()).all(alike)
    }
}

impl Eq for Fused {}

impl Hash for Fused {
    /// Some nodes are enough: expressions that differ mostly differ there, and this is called for each launch.
    fn hash<H: Hasher>(&self, state: &mut H) {
        const SAMPLES: usize = 16;
        let nodes = self.expr.nodes();
        nodes.len().hash(state);
        for node in nodes.iter().step_by(nodes.len().div_ceil(SAMPLES).max(1)) {
            self.word(node).hash(state);
        }
        for output in self.expr.outputs() {
            output.index().hash(state);
        }
    }
}

fn constants(expr: &Expr) -> impl Iterator<Item = (Scalar, DType)> + '_ {
    let nodes = expr.nodes().iter();
    nodes.filter_map(|&(node, dtype)| match node {
        Node::Const(value) => Some((value, dtype)),
        _ => None,
    })
}

/// What a constant is called, as a parameter of the kernel and of `evaluate`.
pub(super) fn constant_name(index: usize) -> String {
    format!("c{index}")
}

/// The type of the parameter that holds a constant.
fn field_type(dtype: DType) -> &'static str {
    match dtype.size() {
        1 | 2 if !dtype.is_float() => "u32",
        _ => compute_type(dtype),
    }
}

#[cfg(test)]
mod tests {
    use streampool_device::{Binary, View};

    use super::*;
    use crate::elementwise::map;
    use crate::rows::testing::{LIMITS, row_major};
    use crate::{Dispatch, Kernel};

    /// `x * factor`, for so many groups.
    fn scaled(factor: impl Into<Scalar>, dtype: DType, groups: usize) -> Dispatch {
        let mut expr = Expr::builder();
        let x = expr.input(dtype).unwrap();
        let factor = expr.constant(factor, dtype).unwrap();
        let y = expr.binary(Binary::Mul, x, factor).unwrap();
        let expr = Arc::new(expr.finish(&[y]).unwrap());
        let operands: Vec<View> = vec![row_major(dtype, &[100]); groups];
        let mut plan = map(&expr, &operands, &operands, &LIMITS).unwrap();
        assert_eq!(plan.dispatches.len(), 1);
        *plan.dispatches.remove(0)
    }

    fn sum_of(constants: usize, value: f64) -> Fused {
        let mut expr = Expr::builder();
        let mut y = expr.input(DType::F32).unwrap();
        for _ in 0..constants {
            let constant = expr.constant(value, DType::F32).unwrap();
            y = expr.binary(Binary::Add, y, constant).unwrap();
        }
        Fused::new(&Arc::new(expr.finish(&[y]).unwrap()))
    }

    fn hash(fused: &Fused) -> u64 {
        let mut hasher = crate::KeyHasher::with_seed(1);
        fused.hash(&mut hasher);
        hasher.finish()
    }

    #[test]
    fn expressions_that_differ_in_constants_share_a_kernel() {
        for groups in [1, 3] {
            let (one, two) = (
                scaled(0.1, DType::F32, groups),
                scaled(0.2, DType::F32, groups),
            );
            assert_eq!(one.kernel, two.kernel);
            assert_ne!(one.params, two.params);
        }
        let (one, two) = (sum_of(5, 1.0), sum_of(5, 2.0));
        assert!(one == two && hash(&one) == hash(&two));
    }

    #[test]
    fn what_else_differs_makes_another_kernel() {
        let kernels: Vec<Kernel> = [DType::F32, DType::I32, DType::U32, DType::F16]
            .map(|dtype| scaled(1, dtype, 1).kernel)
            .into();
        for (index, kernel) in kernels.iter().enumerate() {
            assert!(!kernels[..index].contains(kernel));
        }
        assert_ne!(sum_of(5, 1.0), sum_of(6, 1.0));
    }

    #[test]
    fn constants_lie_in_the_parameters_with_all_their_bits() {
        let first = |dispatch: Dispatch| {
            let bytes = dispatch.params.as_bytes();
            u64::from_le_bytes(bytes[..8].try_into().unwrap())
        };
        let wide = u64::MAX - 1;
        assert_eq!(first(scaled(f64::MIN_POSITIVE / 3.0, DType::F64, 1)), {
            (f64::MIN_POSITIVE / 3.0).to_bits()
        });
        assert_eq!(first(scaled(i64::MIN + 1, DType::I64, 1)), 1 << 63 | 1);
        assert_eq!(first(scaled(wide as i64, DType::U64, 1)), wide);
        assert_eq!(first(scaled(-1, DType::I8, 1)) as u32, 0xff);
        assert_eq!(
            first(scaled(0.1, DType::F16, 1)) as u32,
            half::f16::from_f64(0.1).to_f32().to_bits()
        );
    }

    #[test]
    fn more_constants_than_a_kernel_is_passed_are_in_its_text() {
        let (one, two) = (
            sum_of(MOST_CONSTANTS + 1, 1.0),
            sum_of(MOST_CONSTANTS + 1, 2.0),
        );
        assert_ne!(one, two);
        assert_eq!(one, sum_of(MOST_CONSTANTS + 1, 1.0));
        assert!(one.fields().is_empty() && one.params() == Params::new());
    }
}
