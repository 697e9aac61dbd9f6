//! The live handles: a container, and how it was reached.

use rhai::{FnNamespace, FuncRegistration};
use valvehouse_json::{Array, Object};

/// The way in which a container was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Plain,
    /// A request or conversation.
    Body,
    /// The list of a body's messages.
    Messages,
    /// One of them, or an answer.
    Message,
    /// An event of a stream.
    Event,
    /// The subject of the four native hooks.
    Ctx,
    /// A context with its variables.
    Context,
    /// The answer of another host.
    Reply,
}

impl Shape {
    /// The shape of what stands under a key.
    pub(super) fn below_key(self, key: &str) -> Self {
        match (self, key) {
            (Self::Body | Self::Ctx, "messages") => Self::Messages,
            (Self::Ctx, "result") => Self::Message,
            (Self::Ctx, "context") => Self::Context,
            _ => Self::Plain,
        }
    }

    /// The shape of a list's elements.
    pub(super) fn below_index(self) -> Self {
        if self == Self::Messages { Self::Message } else { Self::Plain }
    }
}

/// A live array.
#[derive(Clone, Debug)]
pub(crate) struct List {
    pub(crate) shape: Shape,
    pub(crate) array: Array,
}

/// A live map.
#[derive(Clone, Debug)]
pub(crate) struct Map {
    pub(crate) shape: Shape,
    pub(crate) object: Object,
}

/// Immutable bytes: a clone shares them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bytes(pub(crate) bytes::Bytes);

/// The kernel of the running turn, `ctx.kernel`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KernelHandle;

/// A function that may be called on a constant.
pub(super) fn pure(name: &'static str) -> FuncRegistration {
    FuncRegistration::new(name).with_purity(true).with_namespace(FnNamespace::Global)
}

/// The same with what the reference says of it: its parameters, what it gives, and what it does.
pub(super) fn method(name: &'static str, params: &[&str], about: &str) -> FuncRegistration {
    pure(name).with_params_info(params).with_comments([format!("/// {about}")])
}
