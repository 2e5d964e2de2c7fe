//! Kernel text as C++ that a CPU's compiler takes.

mod arrays;
mod entry;
mod metal;

use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};

use streampool_kernels::Dialect;

pub use entry::{Buffer, Entry, Parameter, Space};

macro_rules! shim {
    ($($file:literal),*) => {
        concat!(
            include_str!("shim/machine.h"),
            include_str!("shim/undefined.h"),
            include_str!("shim/bits.h"),
            include_str!("shim/c_library.h"),
            $(include_str!($file)),*
        )
    };
}

/// What stands before all kernels of a file.
const fn shim(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Cuda => shim!(
            "shim/cuda/words.h",
            "shim/cuda/intrinsics.h",
            "shim/cuda/functions.h",
            "shim/cuda/atomics.h"
        ),
        Dialect::Metal => shim!(
            "shim/metal/accesses.h",
            "shim/metal/types.h",
            "shim/metal/positions.h",
            "shim/metal/words.h",
            "../../../crates/kernels/tests/metal/functions.h",
            "../../../crates/kernels/tests/metal/simdgroup_matrix.h",
            "shim/metal/functions.h",
            "shim/metal/matrices.h"
        ),
    }
}

const fn options(dialect: Dialect) -> &'static [&'static str] {
    match dialect {
        Dialect::Cuda => &[],
        // Each access to memory calls a function, which the shim has: nothing of the sanitizer is linked.
        Dialect::Metal => &["-fsanitize=thread"],
    }
}

/// The kernels of a text in C++. Many texts of one dialect stand in one file, each in a namespace of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// Tells it from all others: the hash of its text.
    pub name: String,
    pub entries: Vec<Entry>,
    dialect: Dialect,
    text: String,
}

impl Unit {
    /// The kernel `entry` of a text in CUDA's dialect, which takes so many operands. `compiler` is what else its code
    /// depends on.
    pub fn cuda(entry: &str, text: &str, operands: usize, compiler: &str) -> Result<Unit, String> {
        let text = text.replace("extern \"C\" __global__", "__global__");
        let declared = Entry::cuda(entry, operands, &text);
        Unit::new(Dialect::Cuda, entry, &text, vec![declared], compiler)
    }

    /// All kernels of a text in Metal's dialect.
    pub fn metal(text: &str, compiler: &str) -> Result<Unit, String> {
        // What these have is there already, and nothing is asked of an attribute whose name is a word of Metal.
        let text = text.replace("#include <metal_stdlib>", "");
        let text = text.replace("#include <metal_simdgroup_matrix>", "");
        let entries = metal::entries(&text)?;
        let text = text.replace("[[threadgroup(", "[[group_array(");
        let label = match entries.as_slice() {
            [only] => only.name.clone(),
            _ => "library".to_owned(),
        };
        Unit::new(Dialect::Metal, &label, &text, entries, compiler)
    }

    /// What the compiler is told beside what it always is.
    pub fn options(&self) -> &'static [&'static str] {
        options(self.dialect)
    }

    fn new(
        dialect: Dialect,
        label: &str,
        text: &str,
        mut entries: Vec<Entry>,
        compiler: &str,
    ) -> Result<Unit, String> {
        let text = arrays::asked_for(dialect, text, &mut entries)?;
        let digest = |seed: u8| {
            let mut hasher = DefaultHasher::new();
            let how = (shim(dialect), options(dialect), compiler);
            (seed, how, &text, &entries).hash(&mut hasher);
            hasher.finish()
        };
        let name = format!("{label}_{:016x}{:016x}", digest(0), digest(1));
        Ok(Unit {
            text: in_namespace(&name, &text, &entries),
            name,
            entries,
            dialect,
        })
    }
}

/// One file of these kernels, which are of one dialect.
pub fn file(units: &[Unit]) -> String {
    let mut file = String::new();
    for (number, unit) in units.iter().enumerate() {
        if number == 0 {
            file.push_str(shim(unit.dialect));
        }
        file.push_str(&unit.text);
    }
    file
}

fn in_namespace(name: &str, text: &str, entries: &[Entry]) -> String {
    let mut unit = format!("namespace {name} {{\n#line 1 \"{name}\"\n{text}\n");
    for (number, entry) in entries.iter().enumerate() {
        let arguments = entry.arguments().join(", ");
        let sizes = entry.sizes().join(", ");
        let _ = write!(
            unit,
            "extern \"C\" UNCHECKED void run_{name}_{number}(Machine* on, void* const* buffers, const unsigned long long* lengths) {{\n    \
             machine = on;\n    {entry}({arguments});\n}}\n\
             extern \"C\" UNCHECKED unsigned long long size_{name}_{number}(unsigned long long number) {{\n    \
             const unsigned long long sizes[] = {{{sizes}}};\n    return sizes[number];\n}}\n",
            entry = entry.name,
        );
    }
    unit.push_str("}\n");
    for line in text.lines() {
        if let Some(defined) = line.trim_start().strip_prefix("#define ") {
            let end = |c: char| !c.is_ascii_alphanumeric() && c != '_';
            let macro_name = defined.split(end).next().unwrap_or_default();
            let _ = writeln!(unit, "#undef {macro_name}");
        }
    }
    unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_undoes_what_it_defines_and_asks_for_shared_memory() {
        let text = "#define SIDE 4\n#define AT(x) (x)\nstruct Params { unsigned n; };\n\
                    extern \"C\" __global__ void __launch_bounds__(64, 1) f(float* to, const Params p) {\n    \
                    __shared__ float tile[SIDE * 2];\n}\n";
        let unit = Unit::cuda("f", text, 1, "").expect("it is right");
        assert_eq!(unit.entries[0].most_threads, Some(64));
        for part in [
            "auto& tile = shared_array<float, SIDE * 2>();",
            "f(Address{buffers[0]}, *(Params*)buffers[1]);",
            "sizes[] = {0 + sizeof(float) * (SIDE * 2), 0, sizeof(Params)}",
            "#undef SIDE\n#undef AT\n",
        ] {
            assert!(unit.text.contains(part), "{part}:\n{}", unit.text);
        }
        let other = Unit::cuda("f", text, 1, "another").expect("it is right");
        assert_ne!(unit.name, other.name);
    }

    #[test]
    fn an_array_that_launches_bring_says_how_long_it_is() {
        let of = |declared: &str| {
            let text =
                format!("extern \"C\" __global__ void f(float* to) {{\n    {declared}\n}}\n");
            Unit::cuda("f", &text, 1, "")
        };
        let unit =
            of("extern __shared__ __align__(1024) float tile[]; // 96").expect("it is right");
        assert!(unit.entries[0].brings);
        assert!(
            unit.text
                .contains("auto& tile = shared_array<float, 96>();")
        );
        assert!(of("extern __shared__ __align__(1024) float tile[];").is_err());
    }
}
