//! Problems of scripts: kind, position and help.

mod absent;
mod cause;
pub(crate) mod codes;
mod comprehension;
mod edit;
mod error_place;
mod explanation;
mod finding;
mod foreign;
mod functions;
mod keywords;
mod names;
mod parse;
mod position;
mod run;
mod run_hints;
mod signature;
mod unclosed;

#[cfg(test)]
mod tests;

pub use cause::{Cause, Syntax};
pub use codes::Code;
pub(crate) use codes::{Page, code_constants};
pub use comprehension::in_row as comprehension;
pub use edit::{Fix, FixEdit, Spot, is_part, quoted};
pub use error_place::ErrorPlace;
pub use finding::{Diagnostic, Severity};
pub(crate) use finding::{MAX_PROBLEMS, has_errors};
pub(crate) use functions::{function as foreign_function, renamed as foreign_name};
pub(crate) use names::some_of as functions_of_module;
pub(crate) use parse::of_parse;
pub(crate) use run::{at_run, of_run};
pub(crate) use run_hints::help_for_run;
pub use signature::in_row as signature;
pub(crate) use unclosed::comment as unclosed_comment;
