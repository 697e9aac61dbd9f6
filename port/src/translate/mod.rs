//! Translates the tree of a plugin into the functions of a script.
//!
//! A statement is either translated completely or left as `// TODO` with its source line. Each function is
//! translated in two passes: the first infers the types of its variables, the second writes its code.

mod aliases;
mod arguments;
mod arithmetic;
mod assign;
mod builtin;
mod call;
mod comprehension;
mod context;
mod expression;
mod format;
mod function;
mod generators;
mod helper;
mod http;
mod jumps;
mod library;
mod live;
mod loops;
mod method;
mod page;
mod path;
mod regex;
mod slice;
mod statement;
mod time;

pub(crate) use context::Translator;
pub(crate) use context::{Effects, FunctionRef, Owner, Role};
pub(crate) use function::{has_word, head_line};
pub(crate) use helper::Helper;
pub(crate) use http::host;
