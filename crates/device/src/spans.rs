//! Spans and events of the crate `tracing`, where the feature of that name is on. Where it is off they are nothing.

/// A span that lasts until the end of the block.
#[cfg(feature = "tracing")]
#[macro_export]
macro_rules! span {
    ($name:literal $(, $field:ident = $value:expr)* $(,)?) => {
        let _span =
            $crate::tracing::debug_span!(target: "streampool", $name $(, $field = $value)*).entered();
    };
}

/// A span that lasts until the end of the block.
#[cfg(not(feature = "tracing"))]
#[macro_export]
macro_rules! span {
    ($name:literal $(, $field:ident = $value:expr)* $(,)?) => {};
}

/// An event that somebody should hear of.
#[cfg(feature = "tracing")]
#[macro_export]
macro_rules! warning {
    ($name:literal $(, $field:ident = $value:expr)* $(,)?) => {
        $crate::tracing::warn!(target: "streampool", $($field = $value,)* $name)
    };
}

/// An event that somebody should hear of.
#[cfg(not(feature = "tracing"))]
#[macro_export]
macro_rules! warning {
    ($name:literal $(, $field:ident = $value:expr)* $(,)?) => {{}};
}
