//! Live handles: a container, and its shape.

use rhai::{FnNamespace, FuncRegistration};
use valvehouse_json::{Array, Object};

/// The role of a container, which follows from the path that led to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Any other value.
    Plain,
    /// A request or conversation.
    Body,
    /// The list of a body's messages.
    Messages,
    /// A message, or an answer.
    Message,
    /// An event of a stream.
    Event,
    /// The subject of the four native hooks.
    Ctx,
    /// A context with its variables.
    Context,
    /// The response of another host.
    Reply,
}

impl Shape {
    /// Returns the shape of the value under a key.
    pub(super) fn below_key(self, key: &str) -> Self {
        match (self, key) {
            (Self::Body | Self::Ctx, "messages") => Self::Messages,
            (Self::Ctx, "result") => Self::Message,
            (Self::Ctx, "context") => Self::Context,
            _ => Self::Plain,
        }
    }

    /// Returns the shape of a list's elements.
    pub(super) fn below_index(self) -> Self {
        if self == Self::Messages { Self::Message } else { Self::Plain }
    }
}

/// A live array.
#[derive(Clone, Debug)]
pub struct List {
    /// Its role.
    pub shape: Shape,
    pub(crate) array: Array,
}

/// A live map.
#[derive(Clone, Debug)]
pub struct Map {
    /// Its role.
    pub shape: Shape,
    /// The shared object.
    pub object: Object,
}

/// Immutable bytes: a clone shares them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bytes(
    /// The shared bytes.
    pub bytes::Bytes,
);

/// The kernel of the running turn, `ctx.kernel`.
#[derive(Clone, Copy, Debug)]
pub struct KernelHandle;

/// Registers a function that may be called on a constant.
pub(super) fn pure(name: &'static str) -> FuncRegistration {
    FuncRegistration::new(name).with_purity(true).with_namespace(FnNamespace::Global)
}

/// Registers such a function with its parameters, its result type and its documentation.
pub(super) fn method(name: &'static str, params: &[&str], about: &str) -> FuncRegistration {
    pure(name).with_params_info(params).with_comments([format!("/// {about}")])
}

/// Returns `true` for a list or map, live or native.
pub(crate) fn is_container(value: &rhai::Dynamic) -> bool {
    value.is_array() || value.is_map() || value.is::<List>() || value.is::<Map>()
}
