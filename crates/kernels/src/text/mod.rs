//! Kernel text: one source, rendered in the dialect of each compiler.
//!
//! A `KernelText` names its buffers, parameters and shared arrays, and has a body in the C++ that both
//! compilers understand, over the names that the prelude gives it in each dialect:
//!
//! | name | what it is |
//! |---|---|
//! | `i8 u8 i16 u16 i32 u32 i64 u64 f32 f64` | types (`f64`: CUDA only) |
//! | `GLOBAL`, `SHARED`, `PRIVATE` | qualifiers of pointers and references to device memory, to memory of the group, to variables |
//! | `FUNCTION` | begins a function |
//! | `UNROLL` | before a loop of few turns |
//! | `lane`, `threads` | this thread's number in its group, and how many there are |
//! | `group_x group_y group_z`, `groups_x` | this group's number along each axis, and how many along the first |
//! | `RESIDENTS` | defined by a text for more than one: groups that a processor should have registers for at a time |
//! | `CLUSTER` | defined by a text whose groups come in clusters: how many to one, along the first axis |
//! | `BARRIER()` | all threads of the group arrive, and see what the others wrote to shared arrays |
//! | `shuffle_xor(value, distance)` | the value of the thread whose number differs by these bits, among 32 neighbours |
//! | `Pack<T, N>`, `load_pack<N>(from)`, `store_pack<N>(to, pack)` | `N` neighbours in memory, moved at once, at an address that is a multiple of their size |
//! | `m_exp(x)`, `m_erf(x)`, … | functions of floats, to a few units in the last place and without limits to their arguments |
//! | `m_min(x, y)`, `m_max(x, y)` | NaN wins |
//! | `act_relu(x)`, `act_gelu(x)`, … | activations |
//! | `int_add(x, y)`, `int_div(x, y)`, … | functions of integers: they wrap, and divide by zero to zero |
//! | `infinity_f32() nan_f32() infinity_f64() nan_f64()` | constants |
//! | `bits_f32(bits) f32_bits(value) bits_f64(bits) f64_bits(value)` | floats and their bits |
//! | `quotient(n, factor, shift)` | a division by a constant of the launch |
//! | `swap_if(at, expected, wanted)`, `add_at(at, value)` | changes that no other thread comes between, in texts that ask for `atomics` |
//! | each buffer's and shared array's name | a pointer |
//! | `p.NAME` | a parameter |
//!
//! Elements of every type are loaded to and stored from the type they are computed in: see [`load`] and
//! [`store`], and [`cast`] for how one becomes another.
//!
//! Text is compiled with exact arithmetic: what a compiler calls fast math is off.

mod atomics;
mod types;

use std::fmt::Write;

use streampool_device::DType;

pub(crate) use atomics::{Changed, atomics};
pub(crate) use types::{activated, bits_type, elements};
pub use types::{cast, compute_type, load, storage_type, store, store_as};

/// What NVRTC is told, besides the architecture.
pub const CUDA_OPTIONS: &[&str] = &["--std=c++17", "--fmad=true", "--diag-suppress=177"];

/// The most bytes of shared memory that a kernel may name.
pub(crate) const MOST_SHARED: u32 = 48 << 10;

/// The language of a device's compiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// CUDA C++, as NVRTC compiles it.
    Cuda,
    /// The Metal Shading Language, version 3.1.
    Metal,
}

/// A rendered kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The name of its entry.
    pub entry: &'static str,
    /// The whole text.
    pub text: String,
    /// Bytes of shared memory that a launch brings.
    pub brought: u32,
}

/// A kernel before it is rendered.
#[derive(Debug, Clone, Default)]
pub(crate) struct KernelText {
    pub entry: &'static str,
    pub buffers: Vec<Buffer>,
    pub params: Vec<Field>,
    pub shared: Vec<SharedArray>,
    /// Threads in each group, when the kernel is made for a certain number.
    pub threads: Option<u32>,
    /// Functions that the body calls.
    pub functions: String,
    pub body: String,
}

/// A pointer to device memory.
#[derive(Debug, Clone)]
pub(crate) struct Buffer {
    pub name: String,
    /// The type it points to.
    pub ty: &'static str,
    pub written: bool,
}

impl Buffer {
    pub fn read(name: impl Into<String>, ty: &'static str) -> Buffer {
        Buffer {
            name: name.into(),
            ty,
            written: false,
        }
    }

    pub fn write(name: impl Into<String>, ty: &'static str) -> Buffer {
        Buffer {
            name: name.into(),
            ty,
            written: true,
        }
    }
}

/// A parameter: `ty name`, in the order in which [`Params`](crate::Params) gets the values.
#[derive(Debug, Clone)]
pub(crate) struct Field {
    pub ty: &'static str,
    pub name: String,
}

impl Field {
    pub fn new(ty: &'static str, name: impl Into<String>) -> Field {
        Field {
            ty,
            name: name.into(),
        }
    }
}

/// An array that the threads of a group share.
#[derive(Debug, Clone)]
pub(crate) struct SharedArray {
    pub ty: &'static str,
    pub name: &'static str,
    pub length: usize,
    /// Its bytes, if each launch brings it, and is the only one. None of Metal's does.
    brought: u32,
}

impl SharedArray {
    pub fn new(ty: &'static str, name: &'static str, length: usize) -> SharedArray {
        SharedArray {
            ty,
            name,
            length,
            brought: 0,
        }
    }

    /// One that may be larger than those that a text names.
    pub fn brought(ty: &'static str, name: &'static str, length: usize, bytes: u32) -> SharedArray {
        let array = SharedArray::new(ty, name, length);
        SharedArray {
            brought: bytes,
            ..array
        }
    }
}

/// What 16-bit elements lie in, so that eight of them are moved at once.
pub(crate) const WORDS: &str = "struct alignas(16) Words { u16 elements[8]; };\n";

/// Defines constants of the text.
pub(crate) fn constants(text: &mut String, constants: &[(&str, u32)]) {
    for (name, value) in constants {
        let _ = writeln!(text, "#define {name} {value}u");
    }
}

/// Declares `Factor`, what Metal calls the type of 16 bits that matrices are multiplied in.
pub(crate) fn factor(dtype: DType) -> &'static str {
    match dtype {
        DType::BF16 => "typedef bfloat Factor;\n",
        _ => "typedef half Factor;\n",
    }
}

/// Begins the declaration of an array that launches bring. Tensor cores want it to lie so.
const BROUGHT: &str = "extern __shared__ __align__(1024) ";

/// The type of a parameter by which tiles are found.
pub(crate) const TENSOR_MAP: &str = "TensorMap";

/// How a text defines how many groups are in a cluster.
const CLUSTER: &str = "#define CLUSTER ";

/// How a kernel waits for earlier ones.
const WAIT: &str = "WAIT_FOR_EARLIER_KERNELS();";

impl KernelText {
    /// The whole text in `dialect`.
    pub fn render(&self, dialect: Dialect) -> Source {
        let mut text = prelude(dialect).to_owned();
        text.push_str("struct Params {\n");
        for Field { ty, name } in &self.params {
            let _ = writeln!(text, "    {ty} {name};");
        }
        if self.params.is_empty() {
            text.push_str("    u32 none;\n");
        }
        text.push_str("};\n");
        text.push_str(&self.functions);
        match dialect {
            Dialect::Cuda => self.cuda_entry(&mut text),
            Dialect::Metal => self.metal_entry(&mut text),
        }
        text.push_str(&self.body);
        text.push_str("}\n");
        Source {
            entry: self.entry,
            text,
            brought: self.shared.iter().map(|array| array.brought).sum(),
        }
    }

    fn cuda_entry(&self, text: &mut String) {
        let bounds = self.threads.map_or(String::new(), |threads| {
            // For one group the compiler may use as many registers as it takes to have all loads under way.
            text.push_str("#ifndef RESIDENTS\n#define RESIDENTS 1\n#endif\n");
            let cluster = match self.functions.contains(CLUSTER) {
                true => "__cluster_dims__(CLUSTER, 1, 1) ",
                false => "",
            };
            format!("{cluster}__launch_bounds__({threads}, RESIDENTS) ")
        });
        let _ = write!(text, "extern \"C\" __global__ void {bounds}{}(", self.entry);
        for Buffer { name, ty, written } in &self.buffers {
            let constant = if *written { "" } else { "const " };
            let _ = write!(text, "{constant}{ty}* {name}, ");
        }
        // The copy engine reads a map where it is.
        let has_maps = self.params.iter().any(|field| field.ty == TENSOR_MAP);
        text.push_str(match has_maps {
            true => "const Params GRID_CONSTANT p) {\n",
            false => "const Params p) {\n",
        });
        text.push_str("    const u32 lane = threadIdx.x, threads = blockDim.x;\n");
        text.push_str(
            "    const u32 group_x = blockIdx.x, group_y = blockIdx.y, group_z = blockIdx.z;\n",
        );
        text.push_str("    const u32 groups_x = gridDim.x;\n");
        for array in &self.shared {
            let SharedArray {
                ty, name, length, ..
            } = array;
            let _ = match array.brought {
                0 => writeln!(text, "    __shared__ {ty} {name}[{length}];"),
                _ => writeln!(text, "    {BROUGHT}{ty} {name}[]; // {length}"),
            };
        }
        // A body that reads something ahead waits itself.
        if !self.body.contains(WAIT) {
            let _ = writeln!(text, "    {WAIT}");
        }
    }

    fn metal_entry(&self, text: &mut String) {
        if let Some(threads) = self.threads {
            let _ = writeln!(text, "[[max_total_threads_per_threadgroup({threads})]]");
        }
        let _ = write!(text, "kernel void {}(", self.entry);
        for (index, Buffer { name, ty, written }) in self.buffers.iter().enumerate() {
            let constant = if *written { "" } else { "const " };
            let _ = write!(text, "device {constant}{ty}* {name} [[buffer({index})]], ");
        }
        let _ = write!(
            text,
            "constant Params& p [[buffer({})]],\n    ",
            self.buffers.len()
        );
        text.push_str("u32 lane [[thread_index_in_threadgroup]], ");
        text.push_str("uint3 threads3 [[threads_per_threadgroup]],\n    ");
        text.push_str("uint3 group3 [[threadgroup_position_in_grid]], ");
        text.push_str("uint3 groups3 [[threadgroups_per_grid]]) {\n");
        text.push_str("    const u32 threads = threads3.x, groups_x = groups3.x;\n");
        text.push_str(
            "    const u32 group_x = group3.x, group_y = group3.y, group_z = group3.z;\n",
        );
        for SharedArray {
            ty, name, length, ..
        } in &self.shared
        {
            let _ = writeln!(text, "    threadgroup {ty} {name}[{length}];");
        }
    }
}

/// The names that kernel text is written in, as each dialect has them.
const fn prelude(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Cuda => concat!(
            include_str!("prelude/cuda.h"),
            include_str!("prelude/common.h")
        ),
        Dialect::Metal => concat!(
            include_str!("prelude/metal.h"),
            include_str!("prelude/common.h")
        ),
    }
}

/// The names for matrices in the registers of a warp, which few kernels need.
pub(crate) const fn tiles(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Cuda => concat!(
            include_str!("prelude/tiles_cuda.h"),
            include_str!("prelude/tiles.h")
        ),
        Dialect::Metal => concat!(
            include_str!("prelude/tiles_metal.h"),
            include_str!("prelude/tiles.h")
        ),
    }
}
