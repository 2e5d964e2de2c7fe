//! One error for the whole library: its kind says what to do, its text says why.

use std::fmt;
use std::time::Duration;

use streampool_batch::Error as Batch;
use streampool_device::{Error as Device, Fault};
use streampool_model::{Error as Model, NodeError as Node};
use streampool_runtime::{Error as Runtime, SettingError};
use streampool_tensor::Error as Tensor;

/// The result of a call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed.
///
/// The errors of all parts of the library become this one by `?`. [`kind`](Self::kind) says what can be done about it, and the
/// text says why it failed. [`get_ref`](Self::get_ref) gives the part's own error, such as [`model::Error`](crate::model::Error),
/// which has every figure.
///
/// ```
/// use streampool::ErrorKind;
/// use streampool::prelude::*;
///
/// fn square(x: &Tensor) -> streampool::Result<Vec<f32>> {
///     Ok(x.matmul(x)?.to_vec()?)
/// }
///
/// let x = Tensor::ones(&streampool::host_pool()?, &[2, 3], DType::F32)?;
/// let error = square(&x).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::InvalidInput);
/// assert!(error.to_string().contains("matmul"));
/// # Ok::<(), streampool::Error>(())
/// ```
pub struct Error(Part);

/// The part of the library that an error comes from.
enum Part {
    Batch(Batch),
    Model(Model),
    Tensor(Tensor),
    Runtime(Runtime),
    Io(std::io::Error),
}

/// What can be done about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An input does not fit: a shape, an element type, an axis, a value.
    InvalidInput,
    /// A setting or an option is not what it can be.
    InvalidSetting,
    /// A model, or another file, is not what it should be.
    InvalidFile,
    /// The program should not make this call: it mixes pools, uses an operand against its access, or would wait for itself.
    Misuse,
    /// The model or the call asks for what the library, or this device, does not do.
    Unsupported,
    /// There is not enough memory.
    OutOfMemory,
    /// More was asked for at once than is allowed, now or later.
    TooLarge,
    /// All streams are leased.
    NoFreeStream,
    /// As many requests or runs are under way as may be: try again later.
    Overloaded,
    /// The deadline passed first.
    DeadlineExceeded,
    /// A wait ended before what it waited for.
    TimedOut,
    /// The pool or the queue is over: shut down, or left behind by a fork of the process.
    Closed,
    /// Work on a stream failed: recover the stream, then go on.
    DeviceFault,
    /// The device is gone, for the rest of the process.
    DeviceLost,
    /// There is no such device here, or something that it needs is missing.
    NoDevice,
    /// A call of the device's driver failed, or a kernel does not compile.
    Driver,
    /// The function of a queue failed, panicked, or gave back what does not fit.
    FunctionFailed,
    /// The operating system refused or failed.
    Io,
    /// None of these.
    Other,
}

impl Error {
    /// What can be done about it.
    pub fn kind(&self) -> ErrorKind {
        match self.root() {
            Root::Batch(error) => of_batch(error),
            Root::Model(error) => of_model(error),
            Root::Node(error) => of_node(error),
            Root::Tensor(error) => of_tensor(error),
            Root::Runtime(error) => of_runtime(error),
            Root::Device(error) => of_device(error),
            Root::Io => ErrorKind::Io,
        }
    }

    /// The error of the part of the library that failed: `batch::Error`, `model::Error`, `tensor::Error` or `runtime::Error`; or
    /// of the operating system: `std::io::Error`.
    pub fn get_ref(&self) -> &(dyn std::error::Error + Send + Sync + 'static) {
        match &self.0 {
            Part::Batch(error) => error,
            Part::Model(error) => error,
            Part::Tensor(error) => error,
            Part::Runtime(error) => error,
            Part::Io(error) => error,
        }
    }

    /// The fault behind it, if work on a stream failed.
    pub fn fault(&self) -> Option<&Fault> {
        match self.root() {
            Root::Runtime(error) => error.fault(),
            Root::Device(Device::Fault(fault) | Device::Poisoned(fault)) => Some(fault),
            _ => None,
        }
    }

    /// When to try again, if a queue was full.
    pub fn retry_after(&self) -> Option<Duration> {
        match self.root() {
            Root::Batch(Batch::Full { retry_after, .. }) => Some(*retry_after),
            _ => None,
        }
    }

    fn root(&self) -> Root<'_> {
        match &self.0 {
            Part::Batch(error) => root_of_batch(error),
            Part::Model(error) => root_of_model(error),
            Part::Tensor(error) => root_of_tensor(error),
            Part::Runtime(error) => root_of_runtime(error),
            Part::Io(_) => Root::Io,
        }
    }
}

/// What failed first, without the errors that only hold it.
enum Root<'a> {
    Batch(&'a Batch),
    Model(&'a Model),
    Node(&'a Node),
    Tensor(&'a Tensor),
    Runtime(&'a Runtime),
    Device(&'a Device),
    Io,
}

fn root_of_batch(error: &Batch) -> Root<'_> {
    match error {
        Batch::Failed(inner) | Batch::Unavailable(inner) => {
            let inner: &(dyn std::error::Error + 'static) = &**inner;
            let own = inner.downcast_ref().map(Error::root);
            let model = || inner.downcast_ref().map(root_of_model);
            let tensor = || inner.downcast_ref().map(root_of_tensor);
            let runtime = || inner.downcast_ref().map(root_of_runtime);
            let device = || inner.downcast_ref().map(Root::Device);
            let io = || inner.is::<std::io::Error>().then_some(Root::Io);
            let upper = own.or_else(model).or_else(tensor);
            let found = upper.or_else(runtime).or_else(device).or_else(io);
            found.unwrap_or(Root::Batch(error))
        }
        _ => Root::Batch(error),
    }
}

fn root_of_model(error: &Model) -> Root<'_> {
    match error {
        Model::Node { why, .. } | Model::Value { why, .. } => root_of_node(why),
        Model::Graph(why) => root_of_node(why),
        Model::Tensor(error) => root_of_tensor(error),
        Model::Runtime(error) => root_of_runtime(error),
        _ => Root::Model(error),
    }
}

fn root_of_node(error: &Node) -> Root<'_> {
    match error {
        Node::Tensor(error) => root_of_tensor(error),
        Node::Inner(error) => root_of_model(error),
        _ => Root::Node(error),
    }
}

fn root_of_tensor(error: &Tensor) -> Root<'_> {
    match error {
        Tensor::Runtime(error) => root_of_runtime(error),
        _ => Root::Tensor(error),
    }
}

fn root_of_runtime(error: &Runtime) -> Root<'_> {
    match error {
        Runtime::Device(error) => Root::Device(error),
        _ => Root::Runtime(error),
    }
}

fn of_batch(error: &Batch) -> ErrorKind {
    match error {
        Batch::Full { .. } => ErrorKind::Overloaded,
        Batch::TooLarge { .. } => ErrorKind::TooLarge,
        Batch::Closed | Batch::Forked => ErrorKind::Closed,
        Batch::Expired => ErrorKind::DeadlineExceeded,
        Batch::Request { .. } => ErrorKind::InvalidInput,
        Batch::Output { .. }
        | Batch::Rows { .. }
        | Batch::Failed(_)
        | Batch::Unavailable(_)
        | Batch::Panicked(_)
        | Batch::Lost => ErrorKind::FunctionFailed,
        Batch::Setting { .. } => ErrorKind::InvalidSetting,
        Batch::Inside { .. } => ErrorKind::Misuse,
        Batch::Thread(_) => ErrorKind::Io,
        _ => ErrorKind::Other,
    }
}

fn of_model(error: &Model) -> ErrorKind {
    match error {
        Model::Io { .. } => ErrorKind::Io,
        Model::File { .. } => ErrorKind::InvalidFile,
        Model::Unsupported(_) | Model::Output { .. } => ErrorKind::Unsupported,
        Model::Input { .. } => ErrorKind::InvalidInput,
        Model::Deadline => ErrorKind::DeadlineExceeded,
        Model::Busy { .. } => ErrorKind::Overloaded,
        _ => ErrorKind::Other,
    }
}

fn of_node(error: &Node) -> ErrorKind {
    match error {
        Node::Malformed { .. } => ErrorKind::InvalidFile,
        Node::Unsupported(_) => ErrorKind::Unsupported,
        _ => ErrorKind::Other,
    }
}

fn of_tensor(error: &Tensor) -> ErrorKind {
    match error {
        Tensor::Shape { .. }
        | Tensor::DType { .. }
        | Tensor::Axis { .. }
        | Tensor::Index { .. }
        | Tensor::Parameter { .. }
        | Tensor::Array { .. } => ErrorKind::InvalidInput,
        Tensor::OtherPool { .. } => ErrorKind::Misuse,
        Tensor::File { .. } => ErrorKind::InvalidFile,
        Tensor::Io { .. } => ErrorKind::Io,
        _ => ErrorKind::Other,
    }
}

fn of_runtime(error: &Runtime) -> ErrorKind {
    match error {
        Runtime::Setting(_) => ErrorKind::InvalidSetting,
        Runtime::NoFreeStream { .. } | Runtime::WaitTimedOut { .. } => ErrorKind::NoFreeStream,
        Runtime::Deadline => ErrorKind::DeadlineExceeded,
        Runtime::OverBudget { .. } | Runtime::TooLarge { .. } => ErrorKind::TooLarge,
        Runtime::WrongLength { .. } | Runtime::NotOfType { .. } => ErrorKind::InvalidInput,
        Runtime::NoSuchStream { .. }
        | Runtime::ForeignStream
        | Runtime::ForeignBuffer
        | Runtime::ForeignProgram
        | Runtime::ForeignEvent
        | Runtime::ForeignSlot { .. }
        | Runtime::NotWritable { .. }
        | Runtime::WrongBinding { .. } => ErrorKind::Misuse,
        Runtime::Dependency(_) => ErrorKind::DeviceFault,
        Runtime::OutOfMemory { .. } => ErrorKind::OutOfMemory,
        Runtime::Alignment { .. } => ErrorKind::Unsupported,
        Runtime::ShutDown | Runtime::Forked => ErrorKind::Closed,
        _ => ErrorKind::Other,
    }
}

fn of_device(error: &Device) -> ErrorKind {
    match error {
        Device::Unsupported { .. } => ErrorKind::Unsupported,
        Device::InvalidOp { .. } | Device::Invalid { .. } => ErrorKind::InvalidInput,
        Device::OutOfMemory { .. } => ErrorKind::OutOfMemory,
        Device::Fault(_) | Device::Poisoned(_) => ErrorKind::DeviceFault,
        Device::Unavailable { .. } => ErrorKind::NoDevice,
        Device::Driver { .. } | Device::Compile { .. } => ErrorKind::Driver,
        Device::DeviceLost(_) => ErrorKind::DeviceLost,
        Device::Timeout(_) => ErrorKind::TimedOut,
        Device::NotRecorded
        | Device::NoTiming
        | Device::Capturing(_)
        | Device::NotCapturing
        | Device::Foreign { .. } => ErrorKind::Misuse,
        _ => ErrorKind::Other,
    }
}

/// The text of the part's error, which says all of it.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.get_ref(), f)
    }
}

/// Kind and text: what a `main` prints that returns it.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.kind())
    }
}

impl std::error::Error for Error {
    /// What is behind it, if the text does not say it already.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.get_ref().source()
    }
}

impl From<Batch> for Error {
    fn from(error: Batch) -> Error {
        Error(Part::Batch(error))
    }
}

impl From<Model> for Error {
    fn from(error: Model) -> Error {
        Error(Part::Model(error))
    }
}

impl From<Tensor> for Error {
    fn from(error: Tensor) -> Error {
        Error(Part::Tensor(error))
    }
}

impl From<Runtime> for Error {
    fn from(error: Runtime) -> Error {
        Error(Part::Runtime(error))
    }
}

impl From<Device> for Error {
    fn from(error: Device) -> Error {
        Error(Part::Runtime(error.into()))
    }
}

impl From<SettingError> for Error {
    fn from(error: SettingError) -> Error {
        Error(Part::Runtime(error.into()))
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Error {
        Error(Part::Io(error))
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use streampool_device::{DType, OpKind};

    use super::*;

    fn text() -> String {
        "why".to_owned()
    }

    fn fault() -> Fault {
        Fault::new("stream 1", 7, OpKind::Copy, "it trapped")
    }

    fn shape() -> Tensor {
        Tensor::shape("matmul", "other", &[2, 3], "3 rows")
    }

    fn io() -> std::io::Error {
        std::io::Error::other("the disk is full")
    }

    fn node(why: Node) -> Model {
        Model::Node {
            node: "first".to_owned(),
            op: "MatMul".to_owned(),
            why: Box::new(why),
        }
    }

    macro_rules! kinds {
        ($($error:expr => $kind:ident,)*) => {
            $(
                let error = Error::from($error);
                assert_eq!(error.kind(), ErrorKind::$kind, "{error:?}");
            )*
        };
    }

    #[test]
    fn errors_of_queues_have_their_kinds() {
        kinds! {
            Batch::Full { requests: 1, bytes: 4, setting: "capacity", retry_after: Duration::ZERO } => Overloaded,
            Batch::TooLarge { bytes: 2, capacity: 1 } => TooLarge,
            Batch::Closed => Closed,
            Batch::Forked => Closed,
            Batch::Expired => DeadlineExceeded,
            Batch::Request { input: 0, got: text(), expected: text() } => InvalidInput,
            Batch::Output { output: 0, got: text(), expected: text() } => FunctionFailed,
            Batch::Rows { got: 1, expected: 2 } => FunctionFailed,
            Batch::failed("why") => FunctionFailed,
            Batch::unavailable("why") => FunctionFailed,
            Batch::Panicked("on purpose".into()) => FunctionFailed,
            Batch::Lost => FunctionFailed,
            Batch::Setting { setting: "capacity", got: text(), expected: "more" } => InvalidSetting,
            Batch::Inside { call: "infer", instead: "wait" } => Misuse,
            Batch::Thread(io().into()) => Io,
        }
    }

    #[test]
    fn errors_of_models_have_their_kinds() {
        kinds! {
            Model::Io { path: "model.onnx".into(), error: io() } => Io,
            Model::File { what: text(), got: text(), expected: text() } => InvalidFile,
            Model::Unsupported(vec![]) => Unsupported,
            node(Node::Malformed { what: text(), got: text(), expected: text() }) => InvalidFile,
            node(Node::Unsupported(text())) => Unsupported,
            Model::Value { name: text(), why: Box::new(Node::Unsupported(text())) } => Unsupported,
            Model::Graph(Node::Unsupported(text())) => Unsupported,
            Model::Input { name: text(), got: text(), expected: text() } => InvalidInput,
            Model::Output { name: text(), got: text(), expected: text() } => Unsupported,
            Model::Deadline => DeadlineExceeded,
            Model::Busy { limit: 1 } => Overloaded,
        }
    }

    #[test]
    fn errors_of_tensors_have_their_kinds() {
        let (op, argument) = ("matmul", "other");
        kinds! {
            shape() => InvalidInput,
            Tensor::dtype(op, argument, DType::I32, "f32") => InvalidInput,
            Tensor::Axis { op, argument, got: 3, rank: 2 } => InvalidInput,
            Tensor::Index { op, argument, got: 3, size: 2 } => InvalidInput,
            Tensor::parameter(op, argument, 0, "more") => InvalidInput,
            Tensor::Array { got: text(), expected: text() } => InvalidInput,
            Tensor::OtherPool { op, argument, got: text(), expected: text() } => Misuse,
            Tensor::File { path: "x.npz".into(), place: text(), got: text(), expected: text() } => InvalidFile,
            Tensor::Io { path: "x.npz".into(), kind: io().kind(), message: text() } => Io,
        }
    }

    #[test]
    fn errors_of_the_runtime_have_their_kinds() {
        let (op, argument, waited) = (OpKind::Copy, "dst", Duration::ZERO);
        let memory = Runtime::OutOfMemory {
            requested: 1,
            reserved: 2,
            overhead: 0,
            in_use: 2,
            pending: 0,
            limit: 2,
            is_setting: true,
        };
        kinds! {
            SettingError::WatermarksCrossed { low: 0.9, high: 0.1 } => InvalidSetting,
            Runtime::NoFreeStream { limit: 1 } => NoFreeStream,
            Runtime::WaitTimedOut { limit: 1, waited } => NoFreeStream,
            Runtime::Deadline => DeadlineExceeded,
            Runtime::OverBudget { what: "steps", asked: 2, limit: 1, setting: "STREAMPOOL_RUN_STEPS" } => TooLarge,
            Runtime::TooLarge { requested: 2, largest: 1 } => TooLarge,
            Runtime::WrongLength { what: "the data", got: 1, expected: text() } => InvalidInput,
            Runtime::NotOfType { dtype: DType::Bool, why: text() } => InvalidInput,
            Runtime::NoSuchStream { index: 2, last: 1 } => Misuse,
            Runtime::ForeignStream => Misuse,
            Runtime::ForeignBuffer => Misuse,
            Runtime::ForeignProgram => Misuse,
            Runtime::ForeignEvent => Misuse,
            Runtime::ForeignSlot { op, argument } => Misuse,
            Runtime::NotWritable { op, argument } => Misuse,
            Runtime::WrongBinding { what: "input", index: 0, got: text(), expected: text() } => Misuse,
            Runtime::Dependency(fault()) => DeviceFault,
            memory => OutOfMemory,
            Runtime::Alignment { device: text(), got: 1, expected: 2 } => Unsupported,
            Runtime::ShutDown => Closed,
            Runtime::Forked => Closed,
        }
    }

    #[test]
    fn errors_of_devices_have_their_kinds() {
        let (op, device) = (OpKind::Copy, text);
        kinds! {
            Device::Unsupported { device: device(), op, why: text() } => Unsupported,
            Device::InvalidOp { op, argument: "dst", got: text(), expected: text() } => InvalidInput,
            Device::Invalid { what: "the layout", got: text(), expected: text() } => InvalidInput,
            Device::OutOfMemory { device: device(), requested: 1, in_use: 2, capacity: 2 } => OutOfMemory,
            Device::Fault(fault()) => DeviceFault,
            Device::Poisoned(fault()) => DeviceFault,
            Device::Unavailable { device: device(), why: text() } => NoDevice,
            Device::Driver { device: device(), call: "cuInit", message: text() } => Driver,
            Device::Compile { device: device(), kernel: text(), log: text() } => Driver,
            Device::DeviceLost(text()) => DeviceLost,
            Device::Timeout(Duration::ZERO) => TimedOut,
            Device::NotRecorded => Misuse,
            Device::NoTiming => Misuse,
            Device::Capturing("synchronize") => Misuse,
            Device::NotCapturing => Misuse,
            Device::Foreign { what: "an event", device: device() } => Misuse,
            io() => Io,
        }
    }

    #[test]
    fn the_kind_is_that_of_what_failed_first() {
        kinds! {
            Tensor::from(Device::DeviceLost(text())) => DeviceLost,
            Model::Tensor(shape()) => InvalidInput,
            Model::Runtime(Runtime::ShutDown) => Closed,
            node(Node::Inner(Box::new(node(shape().into())))) => InvalidInput,
            Batch::failed(Model::Deadline) => DeadlineExceeded,
            Batch::failed(shape()) => InvalidInput,
            Batch::failed(Error::from(Batch::Closed)) => Closed,
            Batch::failed(io()) => Io,
            Batch::unavailable(Runtime::ShutDown) => Closed,
            Batch::unavailable(Device::DeviceLost(text())) => DeviceLost,
        }
    }

    #[test]
    fn figures_are_had_whatever_holds_them() {
        let error = Error::from(Batch::failed(node(Tensor::from(Device::Poisoned(fault())).into())));
        assert_eq!(error.fault(), Some(&fault()));
        assert_eq!(Error::from(Runtime::Dependency(fault())).fault(), Some(&fault()));
        assert_eq!(error.retry_after(), None);
        let retry_after = Duration::from_millis(3);
        let full = Batch::Full {
            requests: 1,
            bytes: 4,
            setting: "capacity",
            retry_after,
        };
        assert_eq!(Error::from(full).retry_after(), Some(retry_after));
    }

    #[test]
    fn the_text_is_that_of_the_part_and_no_source_says_it_again() {
        let all = [shape().into(), Error::from(node(shape().into())), Error::from(io())];
        for error in all {
            assert_eq!(error.to_string(), error.get_ref().to_string());
            assert!(error.source().is_none(), "{error:?}");
        }
        let error = Error::from(shape());
        assert_eq!(error.get_ref().downcast_ref(), Some(&shape()));
        assert_eq!(format!("{error:?}"), format!("InvalidInput: {error}"));
    }
}
