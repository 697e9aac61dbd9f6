//! The kinds of problems of scripts, each declared by its page. `docs/problems.md` consists of these pages.

pub(crate) mod calls;
mod code;
pub(crate) mod declarations;
pub(crate) mod file;
pub(crate) mod grants;
pub(crate) mod modules;
pub(crate) mod runs;
pub(crate) mod syntax;

pub use code::Code;
pub(crate) use code::{Page, code_constants, codes};
