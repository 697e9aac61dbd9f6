//! The resources of this machine that plugins may reach, as far as an operator granted it: folders, programs,
//! environment variables.

mod failure;
mod folders;
mod programs;
mod variables;

pub use failure::Failure;
pub use folders::{
    Entry, Folders, Found, Globbing, Grepping, Kind, Lines, Listing, Made, Match, Matches, Read, Writing,
    Written,
};
pub use programs::{Command, Options, Output, Programs};
pub use variables::Variables;
