//! What scripts hold of the host's JSON: live handles, not copies.
//!
//! [`List`] and [`Map`] are shared containers with Rhai's array and map methods on top. The few
//! methods that the host implements itself are in `list` and `map`; every other array or map
//! function of Rhai is lent to them by `delegate`. A [`Shape`] is how a container was reached, and
//! decides which extra words it answers to: a message has `text`, messages have `last(role)`.

mod convert;
mod delegate;
mod list;
mod map;
mod message;

pub(crate) use convert::{dynamic_of, error, json_of, live};
pub(crate) use delegate::lend_missing_functions;
pub(crate) use map::property_accessors;
pub(super) use message::PROPERTIES;

use rhai::{FnNamespace, FuncRegistration, Module, Shared};
use std::sync::OnceLock;
use valvehouse_json::{Array, Object};

/// How a container was reached.
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
    /// What the four native hooks look at.
    Ctx,
    /// A context with its variables.
    Context,
}

impl Shape {
    /// The shape of what stands under a key.
    fn below_key(self, key: &str) -> Self {
        match (self, key) {
            (Self::Body | Self::Ctx, "messages") => Self::Messages,
            (Self::Ctx, "result") => Self::Message,
            (Self::Ctx, "context") => Self::Context,
            _ => Self::Plain,
        }
    }

    /// The shape of a list's elements.
    fn below_index(self) -> Self {
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

/// The functions of live values, for every engine.
pub(crate) fn functions() -> Shared<Module> {
    static FUNCTIONS: OnceLock<Shared<Module>> = OnceLock::new();
    FUNCTIONS
        .get_or_init(|| {
            let mut module = Module::new();
            list::register(&mut module);
            map::register(&mut module);
            message::register(&mut module);
            module.build_index();
            module.into()
        })
        .clone()
}

/// A function that may be called on a constant.
fn pure(name: &'static str) -> FuncRegistration {
    FuncRegistration::new(name).with_purity(true).with_namespace(FnNamespace::Global)
}

/// The same with what the reference says of it: its parameters, what it gives, and what it does.
fn method(name: &'static str, params: &[&str], about: &str) -> FuncRegistration {
    pure(name).with_params_info(params).with_comments([format!("/// {about}")])
}
