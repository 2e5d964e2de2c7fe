//! The kernel that draws random numbers.

use std::fmt::{Display, Write};

use smallvec::smallvec;
use streampool_device::{DType, Distribution, View};

use super::{Recipe, SERIES_F32, SERIES_F64, Series};
use crate::dispatch::{Dispatch, Operand, Params, Plan, grid};
use crate::numbered::{self, Numbered};
use crate::text::{Buffer, Dialect, Field, KernelText, load, storage_type, store, store_as};

/// Draws the elements of one type from one kind of distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Random {
    dtype: DType,
    kind: Kind,
    places: Places,
}

/// What is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Bits,
    Integers,
    Bernoulli,
    Uniform,
    Normal,
    Exponential,
    Gamma { raised: bool },
}

/// Where the elements lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Places {
    /// One behind the other, those of a block at an address that is a multiple of their size.
    Packed,
    /// Along so many dimensions.
    Strided(u8),
}

const THREADS: u32 = 256;

/// The launch that executes a random op, which was validated.
pub(crate) fn random<K: From<Random>>(op: &streampool_device::Random) -> Plan<K> {
    let dst = &op.dst;
    let dims = Numbered::new(dst.shape(), [dst.layout().strides()]);
    let count = dims.elements();
    if count == 0 {
        return Plan::default();
    }
    let recipe = Recipe::of(&op.distribution, dst.dtype());
    let kind = Kind::of(&op.distribution, &recipe);
    let each = each(dst.dtype(), kind) as u64;
    let skipped = op.offset % each;
    let kernel = Random {
        dtype: dst.dtype(),
        kind,
        places: match is_packed(dst, &dims, each, skipped) {
            true => Places::Packed,
            false => Places::Strided(dims.rank()),
        },
    };
    let turns = (count as u64 + skipped).div_ceil(each);
    Plan::of(Dispatch {
        kernel: kernel.into(),
        groups: grid([turns.div_ceil(u64::from(THREADS)) as usize, 1, 1]),
        threads: THREADS,
        operands: smallvec![Operand::Memory(dst.span())],
        params: kernel.values(op, &recipe, &dims, skipped),
    })
}

/// Whether whole blocks can be stored at once. Where a span begins, memory is aligned for every pack.
fn is_packed(dst: &View, dims: &Numbered<1>, each: u64, skipped: u64) -> bool {
    let size = dst.dtype().size();
    let first = dst.span().offset + dst.layout().offset() * size;
    each > 1 && skipped == 0 && dims.is_dense() && first.is_multiple_of(each as usize * size)
}

/// How many places a thread draws.
fn each(dtype: DType, kind: Kind) -> usize {
    match (kind, dtype.size()) {
        (Kind::Gamma { .. }, _) => 1,
        (_, 8) => 2,
        _ => 4,
    }
}

impl Kind {
    fn of(distribution: &Distribution, recipe: &Recipe) -> Kind {
        match (distribution, recipe) {
            (Distribution::Bits, _) => Kind::Bits,
            (Distribution::Integers { .. }, _) => Kind::Integers,
            (Distribution::Bernoulli { .. }, _) => Kind::Bernoulli,
            (Distribution::Uniform { .. }, _) => Kind::Uniform,
            (Distribution::Normal { .. }, _) => Kind::Normal,
            (Distribution::Exponential { .. }, _) => Kind::Exponential,
            (Distribution::Gamma { .. }, recipe) => Kind::Gamma {
                raised: matches!(recipe, Recipe::Gamma { boost: Some(_), .. }),
            },
        }
    }

    fn is_real(self) -> bool {
        !matches!(self, Kind::Bits | Kind::Integers | Kind::Bernoulli)
    }

    /// The names of the numbers of its [`Recipe`].
    fn numbers(self) -> &'static [&'static str] {
        match self {
            Kind::Bits => &[],
            Kind::Integers => &["low", "range"],
            Kind::Bernoulli => &["threshold"],
            Kind::Uniform => &["low", "high", "span"],
            Kind::Normal => &["mean", "deviation"],
            Kind::Exponential => &["rate"],
            Kind::Gamma { .. } => &["d", "c", "boost"],
        }
    }
}

impl Random {
    fn rank(&self) -> u8 {
        match self.places {
            Places::Packed => 0,
            Places::Strided(rank) => rank,
        }
    }

    fn fields(&self) -> Vec<Field> {
        let number = match self.kind.is_real() {
            true => real_type(self.dtype),
            false => "i64",
        };
        let mut fields = ["start", "skipped", "count", "dst_at"]
            .map(|name| Field::new("i64", name))
            .to_vec();
        fields.extend(numbered::fields(self.rank(), &["dst"]));
        fields.extend(["key_low", "key_high"].map(|name| Field::new("u32", name)));
        let numbers = self.kind.numbers().iter();
        fields.extend(numbers.map(|&name| Field::new(number, name)));
        fields
    }

    /// The values of [`Random::fields`].
    fn values(
        &self,
        op: &streampool_device::Random,
        recipe: &Recipe,
        dims: &Numbered<1>,
        skipped: u64,
    ) -> Params {
        let mut params = Params::new()
            .i64(op.offset.wrapping_sub(skipped) as i64)
            .i64(skipped as i64)
            .i64(dims.elements() as i64)
            .i64(op.dst.layout().offset() as i64);
        if self.places != Places::Packed {
            params = dims.params(params);
        }
        params = params.u32(op.seed as u32).u32((op.seed >> 32) as u32);
        let real = |params: Params, value: f64| match self.dtype {
            DType::F64 => params.f64(value),
            _ => params.f32(value as f32),
        };
        match *recipe {
            Recipe::Bits => params,
            Recipe::Integers { low, range } => params.i64(low).i64(range as i64),
            Recipe::Bernoulli { threshold } => params.i64(threshold as i64),
            Recipe::Uniform { low, high, span } => [low, high, span].into_iter().fold(params, real),
            Recipe::Normal { mean, deviation } => [mean, deviation].into_iter().fold(params, real),
            Recipe::Exponential { rate } => real(params, rate),
            Recipe::Gamma { d, c, boost } => {
                [d, c, boost.unwrap_or(0.0)].into_iter().fold(params, real)
            }
        }
    }

    /// Statements that set `drawn`, and the functions they call.
    fn draw(&self) -> String {
        let stored = |value: &str| store(self.dtype, value);
        let each_word = |result: String| {
            format!(
                "{BLOCK} UNROLL\n    for (u32 index = 0; index < EACH; ++index) \
                 {{ const RawWord w = word(block, index); drawn[index] = {result}; }}"
            )
        };
        let ty = storage_type(self.dtype);
        match self.kind {
            Kind::Bits => each_word(format!("{ty}(w)")),
            Kind::Integers => each_word(store_as(
                DType::I64,
                self.dtype,
                "i64(u64(p.low) + share(w, u64(p.range)))",
            )),
            Kind::Bernoulli => {
                let chosen = match self.dtype {
                    DType::Bool => "chosen",
                    DType::F64 => "f64(chosen ? 1 : 0)",
                    float if float.is_float() => "f32(chosen ? 1 : 0)",
                    _ => "(chosen ? 1 : 0)",
                };
                let chosen = chosen.replace("chosen", "(u64(upper_half(w)) < u64(p.threshold))");
                each_word(format!("{ty}({})", stored(&chosen)))
            }
            Kind::Uniform => {
                let value = stored("x_fma(unit(w), p.span, p.low)");
                each_word(format!(
                    "{value}; if ({} >= p.high) {{ drawn[index] = {}; }}",
                    load(self.dtype, "drawn[index]"),
                    stored("p.low")
                ))
            }
            Kind::Normal => format!(
                "{BLOCK} UNROLL\n    for (u32 index = 0; index < EACH; index += 2) {{\n        \
                 const Real far = radius(word(block, index));\n        \
                 const Turn turn = turned(word(block, index + 1));\n        \
                 drawn[index] = {};\n        drawn[index + 1] = {};\n    }}",
                stored("x_fma(x_mul(far, turn.cosine), p.deviation, p.mean)"),
                stored("x_fma(x_mul(far, turn.sine), p.deviation, p.mean)"),
            ),
            Kind::Exponential => each_word(stored("x_div(minus_logarithm(positive(w)), p.rate)")),
            Kind::Gamma { .. } => format!(
                "drawn[0] = {};",
                stored("gamma(place, p.key_low, p.key_high, p.d, p.c, p.boost)")
            ),
        }
    }

    fn functions(&self, dialect: Dialect) -> String {
        let is_long = self.dtype.size() == 8;
        let mut text = String::from(numbered::FUNCTIONS);
        text.push_str(include_str!("philox.h"));
        text.push_str(match is_long {
            true => include_str!("word64.h"),
            false => include_str!("word32.h"),
        });
        if self.kind.is_real() {
            text.push_str(match dialect {
                Dialect::Cuda => include_str!("exact_cuda.h"),
                Dialect::Metal => include_str!("exact_metal.h"),
            });
            match is_long {
                true => {
                    text.push_str(include_str!("real64.h"));
                    series(&mut text, SERIES_F64, |value| {
                        format!("bits_f64({:#x})", value.to_bits())
                    });
                }
                false => {
                    text.push_str(include_str!("real32.h"));
                    series(&mut text, SERIES_F32, |value| {
                        format!("bits_f32({:#x}u)", value.to_bits())
                    });
                }
            }
            text.push_str(include_str!("functions.h"));
        }
        if let Kind::Gamma { raised } = self.kind {
            let _ = writeln!(text, "#define RAISED {raised}");
            text.push_str(include_str!("gamma.h"));
        }
        let _ = writeln!(text, "typedef {} Stored;", storage_type(self.dtype));
        let _ = writeln!(text, "#define EACH {}", each(self.dtype, self.kind));
        text
    }

    pub(crate) fn text(&self, dialect: Dialect) -> Option<KernelText> {
        if dialect == Dialect::Metal && self.dtype == DType::F64 {
            return None;
        }
        let mut body = format!("{}    {}\n", include_str!("draw.h"), self.draw());
        let locate = match self.places {
            Places::Packed => {
                body.push_str(include_str!("packs.h"));
                "    dst_at += number;\n".to_owned()
            }
            Places::Strided(rank) => numbered::locate(rank, "number", &["dst"]),
        };
        let _ = write!(
            body,
            "    UNROLL\n    for (u32 index = 0; index < EACH; ++index) {{\n        \
             const i64 number = first + index;\n        \
             if (number < 0 || number >= p.count) {{ continue; }}\n        \
             i64 dst_at = p.dst_at;\n{locate}        dst[dst_at] = drawn[index];\n    }}\n"
        );
        Some(KernelText {
            entry: "random",
            buffers: vec![Buffer::write("dst", storage_type(self.dtype))],
            params: self.fields(),
            shared: Vec::new(),
            threads: Some(THREADS),
            functions: self.functions(dialect),
            body,
        })
    }
}

const BLOCK: &str = "const Block block = philox(place / PLACES, PLACES == 4 ? 0u : 1u, 0u, p.key_low, p.key_high);\n   ";

/// The type that elements are computed in.
fn real_type(dtype: DType) -> &'static str {
    match dtype {
        DType::F64 => "f64",
        _ => "f32",
    }
}

/// The functions of the series, by Horner's rule.
fn series<F: Copy + Display>(text: &mut String, series: Series<F>, bits: impl Fn(F) -> String) {
    let functions = [
        ("log", series.log),
        ("sin", series.sin),
        ("cos", series.cos),
        ("exp", series.exp),
    ];
    for (name, coefficients) in functions {
        let mut terms = coefficients.iter();
        let first = terms.next().map_or_else(String::new, |&value| bits(value));
        let _ = writeln!(text, "FUNCTION Real {name}_series(Real x) {{");
        let _ = writeln!(text, "    Real sum = {first};");
        for &value in terms {
            let _ = writeln!(text, "    sum = x_fma(sum, x, {}); // {value}", bits(value));
        }
        text.push_str("    return sum;\n}\n");
    }
}
