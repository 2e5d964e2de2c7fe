//! Where a kernel begins, and what it is called with.

/// A kernel of a text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Entry {
    pub name: String,
    pub parameters: Vec<Parameter>,
    /// The most threads that its group may have, if its text says so.
    pub most_threads: Option<u32>,
    /// The arrays that its group shares: the type and the length of each.
    pub arrays: Vec<(String, String)>,
    /// Whether these are one that each launch brings, instead of arrays that the kernel names.
    pub brings: bool,
    /// The first byte of its body in the text.
    pub begins: usize,
}

/// What an entry is given.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Parameter {
    Buffer(Buffer),
    /// A shared array that the launch brings, at this index.
    Array(u32),
    /// A number that the machine knows, by the name of the attribute that asks for it.
    Place(String),
}

/// Memory that a kernel is given.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Buffer {
    /// Where it is bound.
    pub index: u32,
    /// The name of the parameter.
    pub name: String,
    /// Where it lies.
    pub space: Space,
    /// Whether the kernel may write to it.
    pub written: bool,
    /// The type of its elements, if that is known.
    pub(crate) ty: Option<String>,
    pub(crate) is_reference: bool,
}

/// The address space of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Space {
    /// Memory that kernels read and write.
    Device,
    /// Memory that no kernel writes while this one runs.
    Constant,
}

impl Entry {
    /// The kernel `name` of a text in CUDA's dialect: its parameters, if the text says what they are, come after so many
    /// operands.
    pub fn cuda(name: &str, operands: usize, text: &str) -> Entry {
        let operand = |index: usize| Buffer {
            index: index as u32,
            name: String::new(),
            space: Space::Device,
            written: true,
            ty: None,
            is_reference: false,
        };
        let params = Buffer {
            space: Space::Constant,
            written: false,
            ty: Some("Params".to_owned()),
            is_reference: true,
            ..operand(operands)
        };
        let params = text.contains("struct Params ").then_some(params);
        let buffers = (0..operands).map(operand).chain(params);
        let bounds = text.split_once("__launch_bounds__(");
        let most = bounds.and_then(|(_, bounds)| bounds.split([',', ')']).next());
        Entry {
            name: name.to_owned(),
            parameters: buffers.map(Parameter::Buffer).collect(),
            most_threads: most.and_then(|most| most.trim().parse().ok()),
            arrays: Vec::new(),
            brings: false,
            begins: 0,
        }
    }

    pub fn buffers(&self) -> impl Iterator<Item = &Buffer> {
        self.parameters
            .iter()
            .filter_map(|parameter| match parameter {
                Parameter::Buffer(buffer) => Some(buffer),
                _ => None,
            })
    }

    /// The indices of the shared arrays that the launch brings.
    pub fn lengths(&self) -> impl Iterator<Item = u32> {
        self.parameters
            .iter()
            .filter_map(|parameter| match parameter {
                Parameter::Array(index) => Some(*index),
                _ => None,
            })
    }

    /// Its arguments in C++: of `buffers` and `lengths`, each the next.
    pub fn arguments(&self) -> Vec<String> {
        let (mut buffers, mut lengths) = (0.., 0..);
        let argument = |parameter: &Parameter| match parameter {
            Parameter::Buffer(buffer) => {
                let at = buffers.next().unwrap_or(0);
                match (&buffer.ty, buffer.is_reference) {
                    (Some(ty), true) => format!("*({ty}*)buffers[{at}]"),
                    _ => format!("Address{{buffers[{at}]}}"),
                }
            }
            Parameter::Array(_) => {
                let at = lengths.next().unwrap_or(0);
                format!("Address{{machine->shared(machine, lengths[{at}])}}")
            }
            Parameter::Place(attribute) => format!("attribute::{attribute}()"),
        };
        self.parameters.iter().map(argument).collect()
    }

    /// In C++: the bytes of its shared arrays, and of an element of each buffer.
    pub fn sizes(&self) -> Vec<String> {
        let mut shared = "0".to_owned();
        for (ty, length) in &self.arrays {
            shared.push_str(&format!(" + sizeof({ty}) * ({length})"));
        }
        let element = |buffer: &Buffer| match &buffer.ty {
            Some(ty) => format!("sizeof({ty})"),
            None => "0".to_owned(),
        };
        [shared]
            .into_iter()
            .chain(self.buffers().map(element))
            .collect()
    }
}
