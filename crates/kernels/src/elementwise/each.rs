//! The text of kernels that go over elements in any order.

use super::body::Body;
use super::form::{Form, Reach, THREADS, distance_type, number_type};
use crate::text::{Buffer, Dialect, KernelText};

/// Elements whose functions are written out side by side, at most, by the functions of one element: beyond
/// this, more of them in flight only take registers.
const MOST_WORK_IN_FLIGHT: usize = 256;

/// How many chunks a thread has in flight.
fn chunks_in_flight(body: &Body, form: &Form) -> usize {
    let wanted = if form.width == 1 { 4 } else { 2 };
    (MOST_WORK_IN_FLIGHT / (body.work() * form.width)).clamp(1, wanted)
}

/// The widest chunk for functions as many as those of `body`.
pub(super) fn widest(body: &Body) -> usize {
    let most = (MOST_WORK_IN_FLIGHT / body.work()).clamp(1, 16);
    1 << most.ilog2()
}

/// The kernel that computes `body` for the elements that `form` finds.
pub(super) fn text(body: &Body, form: &Form, dialect: Dialect) -> KernelText {
    let (reads, writes) = body.operands();
    let mut fields = body.fields();
    fields.extend(form.fields());
    let buffers = reads
        .iter()
        .enumerate()
        .map(|(input, ty)| Buffer::read(format!("in{input}"), ty));
    let written = writes.iter().enumerate();
    let written = written.map(|(output, ty)| Buffer::write(format!("out{output}"), ty));
    let writer = Writer {
        body,
        form,
        dialect,
        reads: &reads,
        writes: &writes,
    };
    KernelText {
        entry: "elementwise",
        buffers: buffers.chain(written).collect(),
        params: fields,
        threads: Some(THREADS),
        functions: body.function(dialect),
        body: writer.body(),
        ..KernelText::default()
    }
}

struct Writer<'a> {
    body: &'a Body,
    form: &'a Form,
    dialect: Dialect,
    reads: &'a [&'static str],
    writes: &'a [&'static str],
}

impl Writer<'_> {
    fn body(&self) -> String {
        let number = number_type(self.form.wide);
        let chunks = chunks_in_flight(self.body, self.form);
        let singles: String = self
            .inputs()
            .filter(|(_, _, reach)| *reach == Reach::Single)
            .map(|(input, ty, _)| format!("const {ty} x{input} = in{input}[0];\n"))
            .collect();
        format!(
            "{singles}const {number} step = {number}(groups_x) * threads;\n\
             for ({number} first = {number}(group_x) * threads + lane; first < p.count; \
             first += {chunks} * step) {{\n\
             {variables}\
             UNROLL for (u32 u = 0; u < {chunks}; u++) {{\n\
             const {number} index = first + u * step;\n\
             if (index < p.count) {{\n{places}{loads}}}\n}}\n\
             UNROLL for (u32 u = 0; u < {chunks}; u++) {{\n\
             const {number} index = first + u * step;\n\
             if (index < p.count) {{\n{results}}}\n}}\n\
             }}\n{tail}",
            variables = self.variables(chunks),
            places = self.form.places(),
            loads = self.loads(),
            results = self.results(),
            tail = self.tail(),
        )
    }

    /// Each input's number, type and reach.
    fn inputs(&self) -> impl Iterator<Item = (usize, &'static str, Reach)> + '_ {
        let reach = self.form.reach.iter().copied();
        let typed = self.reads.iter().copied().zip(reach);
        typed
            .enumerate()
            .map(|(input, (ty, reach))| (input, ty, reach))
    }

    /// Each output's number, number as an operand, type and reach.
    fn outputs(&self) -> impl Iterator<Item = (usize, usize, &'static str, Reach)> + '_ {
        let before = self.reads.len();
        let typed = self.writes.iter().copied().enumerate();
        typed.map(move |(output, ty)| {
            (
                output,
                before + output,
                ty,
                self.form.reach[before + output],
            )
        })
    }

    /// The type of an operand's elements of a chunk.
    fn chunk_type(&self, ty: &str, reach: Reach) -> String {
        match self.form.width {
            width if width > 1 && reach != Reach::Repeated => format!("Pack<{ty}, {width}>"),
            _ => ty.to_owned(),
        }
    }

    /// What is kept of each chunk in flight: inputs, and the places of strided outputs.
    fn variables(&self, chunks: usize) -> String {
        let inputs = self
            .inputs()
            .filter(|(_, _, reach)| *reach != Reach::Single);
        let inputs = inputs.map(|(input, ty, reach)| {
            format!("{} x{input}[{chunks}];\n", self.chunk_type(ty, reach))
        });
        let outputs = self.outputs().filter(|(_, _, _, reach)| reach.is_strided());
        let distance = distance_type(self.form.wide);
        let outputs = outputs.map(|(output, ..)| format!("{distance} at{output}[{chunks}];\n"));
        inputs.chain(outputs).collect()
    }

    /// Where the chunk `index` of an operand begins.
    fn place(&self, operand: usize, reach: Reach) -> String {
        match (reach, self.form.width) {
            (Reach::Strided | Reach::Repeated, _) => format!("place{operand}"),
            (_, 1) => "index".to_owned(),
            (_, width) => format!("index * {width}"),
        }
    }

    fn loads(&self) -> String {
        let mut text = String::new();
        for (input, _, reach) in self.inputs() {
            let place = self.place(input, reach);
            text += &match (reach, self.form.width) {
                (Reach::Single, _) => continue,
                (Reach::Repeated, _) | (_, 1) => format!("x{input}[u] = in{input}[{place}];\n"),
                (_, width) => format!("x{input}[u] = load_pack<{width}>(in{input} + {place});\n"),
            };
        }
        for (output, operand, _, reach) in self.outputs() {
            if reach.is_strided() {
                text += &format!("at{output}[u] = place{operand};\n");
            }
        }
        text
    }

    fn results(&self) -> String {
        let width = self.form.width;
        let arguments = self.inputs().map(|(input, _, reach)| match reach {
            Reach::Single => format!("x{input}"),
            Reach::Repeated => format!("x{input}[u]"),
            _ if width == 1 => format!("x{input}[u]"),
            _ => format!("x{input}[u].values[k]"),
        });
        let element = if width == 1 {
            "index".to_owned()
        } else {
            format!("index * {width} + k")
        };
        let own = self.body.arguments(self.dialect, &element).into_iter();
        let results = self.outputs().map(|(output, ..)| match width {
            1 => format!("y{output}"),
            _ => format!("y{output}.values[k]"),
        });
        let arguments: Vec<String> = own.chain(arguments).chain(results).collect();
        let mut text = String::new();
        for (output, _, ty, reach) in self.outputs() {
            text += &format!("{} y{output};\n", self.chunk_type(ty, reach));
        }
        if width > 1 {
            text += &format!("UNROLL for (u32 k = 0; k < {width}; k++) ");
        }
        text += &format!("evaluate({});\n", arguments.join(", "));
        for (output, operand, _, reach) in self.outputs() {
            let place = match reach {
                Reach::Strided | Reach::Repeated => format!("at{output}[u]"),
                _ => self.place(operand, reach),
            };
            text += &match width {
                1 => format!("out{output}[{place}] = y{output};\n"),
                _ => format!("store_pack<{width}>(out{output} + {place}, y{output});\n"),
            };
        }
        text
    }

    /// The elements behind the last chunk, one a thread.
    fn tail(&self) -> String {
        if !self.form.has_tail() {
            return String::new();
        }
        let number = number_type(self.form.wide);
        let own = self.body.arguments(self.dialect, "index").into_iter();
        let inputs = self.inputs().map(|(input, _, reach)| match reach {
            Reach::Single => format!("x{input}"),
            _ => format!("in{input}[index]"),
        });
        let results = self.outputs().map(|(output, ..)| format!("y{output}"));
        let arguments: Vec<String> = own.chain(inputs).chain(results).collect();
        let variables: String = self
            .outputs()
            .map(|(output, _, ty, _)| format!("{ty} y{output};\n"))
            .collect();
        let stores: String = self
            .outputs()
            .map(|(output, ..)| format!("out{output}[index] = y{output};\n"))
            .collect();
        format!(
            "if (group_x == 0 && lane < p.tail) {{\n\
             const {number} index = p.count * {width} + lane;\n\
             {variables}evaluate({arguments});\n{stores}}}\n",
            width = self.form.width,
            arguments = arguments.join(", "),
        )
    }
}
