//! Packs: neighbours in memory that a thread takes at once.

use streampool_device::View;

/// How many elements of a size a thread may take at once, the most first: 16 bytes, or 4.
pub(crate) fn packs(element: usize) -> impl Iterator<Item = usize> {
    [16, 4]
        .into_iter()
        .map(move |bytes| bytes / element)
        .filter(|&pack| pack > 1)
}

/// Whether packs of `pack` elements can begin where the view does. Allocations are aligned for any.
pub(crate) fn begins_aligned(view: &View, pack: usize) -> bool {
    let first = view.span().offset / view.dtype().size() + view.layout().offset();
    first.is_multiple_of(pack)
}

/// Statements that declare `name`, the pack of `pack` elements of type `ty` at `from`.
pub(crate) fn read(name: &str, pack: u8, ty: &str, from: &str) -> String {
    match pack {
        1 => format!("Pack<{ty}, 1> {name};\n{name}.values[0] = *({from});\n"),
        _ => format!("const Pack<{ty}, {pack}> {name} = load_pack<{pack}>({from});\n"),
    }
}

/// A statement that writes the pack `name` of `pack` elements to `to`.
pub(crate) fn write(name: &str, pack: u8, to: &str) -> String {
    match pack {
        1 => format!("*({to}) = {name}.values[0];\n"),
        _ => format!("store_pack<{pack}>({to}, {name});\n"),
    }
}
